// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {PermissionController, Permissioned} from "./PermissionController.sol";
import {keyOf} from "./Types.sol";

/// @title Stand-in for EigenLayer's KeyRegistrar on a local chain
/// @notice An operator's signing key for each set; no key serves twice. Absent: keys of BN254 (`BN254KeysAreAbsent`).
contract KeyRegistrar is EIP712, Permissioned {
    enum CurveType {
        NONE,
        ECDSA,
        BN254
    }

    event OperatorSetConfigured(OperatorSet operatorSet, CurveType curveType);
    event KeyRegistered(OperatorSet operatorSet, address indexed operator, CurveType curveType, bytes pubkey);
    event KeyDeregistered(OperatorSet operatorSet, address indexed operator, CurveType curveType);

    error BN254KeysAreAbsent();
    error ConfigurationAlreadySet();
    error InvalidCurveType();
    error InvalidKeyFormat();
    error InvalidSignature();
    error KeyAlreadyRegistered();
    error KeyNotFound(OperatorSet operatorSet, address operator);
    error OperatorAlreadyRegistered();
    error OperatorSetNotConfigured();
    error OperatorStillSlashable(OperatorSet operatorSet, address operator);
    error ZeroPubkey();

    bytes32 public constant ECDSA_KEY_REGISTRATION_TYPEHASH =
        keccak256("ECDSAKeyRegistration(address operator,address avs,uint32 operatorSetId,address keyAddress)");

    AllocationManager public immutable allocationManager;

    mapping(bytes32 operatorSet => CurveType) private _curves;
    mapping(bytes32 operatorSet => mapping(address operator => address)) private _keys;
    /// @dev Kept after deregistration: a key that served once is taken.
    mapping(bytes32 keyHash => address) private _owners;

    constructor(AllocationManager allocationManager_, PermissionController permissionController_)
        EIP712("EigenLayer", "v1")
        Permissioned(permissionController_)
    {
        allocationManager = allocationManager_;
    }

    function configureOperatorSet(OperatorSet memory operatorSet, CurveType curveType)
        external
        checkCanCall(operatorSet.avs)
    {
        if (curveType == CurveType.NONE) revert InvalidCurveType();
        if (_curves[keyOf(operatorSet)] != CurveType.NONE) revert ConfigurationAlreadySet();
        _curves[keyOf(operatorSet)] = curveType;
        emit OperatorSetConfigured(operatorSet, curveType);
    }

    /// @param pubkey the 20 bytes of the key's address
    /// @param signature the key's, over `getECDSAKeyRegistrationMessageHash`
    function registerKey(
        address operator,
        OperatorSet memory operatorSet,
        bytes calldata pubkey,
        bytes calldata signature
    ) external checkCanCall(operator) {
        bytes32 set = keyOf(operatorSet);
        if (_curves[set] == CurveType.NONE) revert OperatorSetNotConfigured();
        if (_curves[set] == CurveType.BN254) revert BN254KeysAreAbsent();
        if (_keys[set][operator] != address(0)) revert OperatorAlreadyRegistered();
        if (pubkey.length != 20) revert InvalidKeyFormat();
        address key = address(bytes20(pubkey));
        if (key == address(0)) revert ZeroPubkey();
        if (_owners[keccak256(pubkey)] != address(0)) revert KeyAlreadyRegistered();
        bytes32 digest = getECDSAKeyRegistrationMessageHash(operator, operatorSet, key);
        if (!SignatureChecker.isValidSignatureNow(key, digest, signature)) revert InvalidSignature();
        _keys[set][operator] = key;
        _owners[keccak256(pubkey)] = operator;
        emit KeyRegistered(operatorSet, operator, CurveType.ECDSA, pubkey);
    }

    function deregisterKey(address operator, OperatorSet memory operatorSet) external checkCanCall(operator) {
        if (allocationManager.isOperatorSlashable(operator, operatorSet)) {
            revert OperatorStillSlashable(operatorSet, operator);
        }
        bytes32 set = keyOf(operatorSet);
        if (_keys[set][operator] == address(0)) revert KeyNotFound(operatorSet, operator);
        delete _keys[set][operator];
        emit KeyDeregistered(operatorSet, operator, _curves[set]);
    }

    function getOperatorSetCurveType(OperatorSet memory operatorSet) external view returns (CurveType) {
        return _curves[keyOf(operatorSet)];
    }

    function getECDSAAddress(OperatorSet memory operatorSet, address operator) public view returns (address) {
        return _keys[keyOf(operatorSet)][operator];
    }

    function isRegistered(OperatorSet memory operatorSet, address operator) external view returns (bool) {
        return getECDSAAddress(operatorSet, operator) != address(0);
    }

    function isKeyGloballyRegistered(bytes32 keyHash) external view returns (bool) {
        return _owners[keyHash] != address(0);
    }

    /// @return operator whose key it is or was, in whichever set
    /// @return registered whether the operator has a key in this set now
    function getOperatorFromSigningKey(OperatorSet memory operatorSet, bytes memory pubkey)
        external
        view
        returns (address operator, bool registered)
    {
        operator = _owners[keccak256(pubkey)];
        registered = getECDSAAddress(operatorSet, operator) != address(0);
    }

    function getECDSAKeyRegistrationMessageHash(address operator, OperatorSet memory operatorSet, address keyAddress)
        public
        view
        returns (bytes32)
    {
        return _hashTypedDataV4(
            keccak256(
                abi.encode(ECDSA_KEY_REGISTRATION_TYPEHASH, operator, operatorSet.avs, operatorSet.id, keyAddress)
            )
        );
    }

    function domainSeparator() external view returns (bytes32) {
        return _domainSeparatorV4();
    }
}
