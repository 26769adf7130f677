// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {
    CreateSetParamsV2,
    DeregisterParams,
    IAVSRegistrar,
    IAllocationManager,
    IDelegationManager,
    OperatorSet,
    RegisterParams
} from "../../src/interfaces/IEigenLayer.sol";

/// @title Stand-in for EigenLayer's AllocationManager on a local chain
/// @notice Operator sets and their members, with the core's selectors, order of checks, errors and delays. Only the
/// account itself acts for itself: there are no appointees. Allocations and slashing are absent.
contract AllocationManager is IAllocationManager {
    struct Membership {
        bool registered;
        uint32 slashableUntil;
    }

    event AVSMetadataURIUpdated(address indexed avs, string metadataURI);
    event AllocationDelaySet(address operator, uint32 delay, uint32 effectBlock);
    event OperatorSetCreated(OperatorSet operatorSet);
    event StrategyAddedToOperatorSet(OperatorSet operatorSet, address strategy);
    event SlasherUpdated(OperatorSet operatorSet, address slasher, uint32 effectBlock);
    event OperatorAddedToOperatorSet(address indexed operator, OperatorSet operatorSet);
    event OperatorRemovedFromOperatorSet(address indexed operator, OperatorSet operatorSet);

    error AlreadyMemberOfSet();
    error InputAddressZero();
    error InvalidCaller();
    error InvalidOperator();
    error InvalidOperatorSet();
    error InvalidPermissions();
    error NonexistentAVSMetadata();
    error NotMemberOfSet();
    error StrategyAlreadyInOperatorSet();

    IDelegationManager public immutable delegation;
    uint32 public immutable DEALLOCATION_DELAY;

    mapping(address avs => bool) private _hasMetadata;
    mapping(bytes32 operatorSet => address) private _slashers;
    mapping(bytes32 operatorSet => address[]) private _strategies;
    mapping(bytes32 operatorSet => mapping(address strategy => bool)) private _hasStrategy;
    mapping(bytes32 operatorSet => mapping(address operator => Membership)) private _memberships;
    mapping(address operator => uint32) private _delays;

    constructor(IDelegationManager delegation_, uint32 deallocationDelay) {
        delegation = delegation_;
        DEALLOCATION_DELAY = deallocationDelay;
    }

    function updateAVSMetadataURI(address avs, string calldata metadataURI) external {
        if (msg.sender != avs) revert InvalidPermissions();
        _hasMetadata[avs] = true;
        emit AVSMetadataURIUpdated(avs, metadataURI);
    }

    function createOperatorSets(address avs, CreateSetParamsV2[] calldata params) external {
        if (msg.sender != avs) revert InvalidPermissions();
        if (!_hasMetadata[avs]) revert NonexistentAVSMetadata();
        for (uint256 i; i < params.length; ++i) {
            _create(OperatorSet(avs, params[i].operatorSetId), params[i].strategies, params[i].slasher);
        }
    }

    /// @dev Only what the DelegationManager does for a new operator, which takes effect at once.
    function setAllocationDelay(address operator, uint32 delay) external {
        if (msg.sender != address(delegation)) revert InvalidCaller();
        _delays[operator] = delay;
        emit AllocationDelaySet(operator, delay, uint32(block.number));
    }

    function registerForOperatorSets(address operator, RegisterParams calldata params) external {
        if (msg.sender != operator) revert InvalidPermissions();
        if (!delegation.isOperator(operator)) revert InvalidOperator();
        for (uint256 i; i < params.operatorSetIds.length; ++i) {
            OperatorSet memory operatorSet = OperatorSet(params.avs, params.operatorSetIds[i]);
            if (!isOperatorSet(operatorSet)) revert InvalidOperatorSet();
            if (isOperatorSlashable(operator, operatorSet)) revert AlreadyMemberOfSet();
            _memberships[_key(operatorSet)][operator].registered = true;
            emit OperatorAddedToOperatorSet(operator, operatorSet);
        }
        getAVSRegistrar(params.avs).registerOperator(operator, params.avs, params.operatorSetIds, params.data);
    }

    function deregisterFromOperatorSets(DeregisterParams calldata params) external {
        if (msg.sender != params.operator && msg.sender != params.avs) revert InvalidCaller();
        for (uint256 i; i < params.operatorSetIds.length; ++i) {
            OperatorSet memory operatorSet = OperatorSet(params.avs, params.operatorSetIds[i]);
            if (!isOperatorSet(operatorSet)) revert InvalidOperatorSet();
            if (!isMemberOfOperatorSet(params.operator, operatorSet)) revert NotMemberOfSet();
            _memberships[_key(operatorSet)][params.operator] =
                Membership(false, uint32(block.number) + DEALLOCATION_DELAY);
            emit OperatorRemovedFromOperatorSet(params.operator, operatorSet);
        }
        getAVSRegistrar(params.avs).deregisterOperator(params.operator, params.avs, params.operatorSetIds);
    }

    function isMemberOfOperatorSet(address operator, OperatorSet memory operatorSet) public view returns (bool) {
        return _memberships[_key(operatorSet)][operator].registered;
    }

    function isOperatorSlashable(address operator, OperatorSet memory operatorSet) public view returns (bool) {
        Membership memory membership = _memberships[_key(operatorSet)][operator];
        return membership.registered || block.number <= membership.slashableUntil;
    }

    function isOperatorSet(OperatorSet memory operatorSet) public view returns (bool) {
        return _slashers[_key(operatorSet)] != address(0);
    }

    function getAllocationDelay(address operator) external view returns (bool isSet, uint32 delay) {
        return (delegation.isOperator(operator), _delays[operator]);
    }

    /// @dev Nobody can name another registrar here, so it is the core's default.
    function getAVSRegistrar(address avs) public pure returns (IAVSRegistrar) {
        return IAVSRegistrar(avs);
    }

    function getSlasher(OperatorSet memory operatorSet) external view returns (address) {
        return _slashers[_key(operatorSet)];
    }

    function getStrategiesInOperatorSet(OperatorSet memory operatorSet) external view returns (address[] memory) {
        return _strategies[_key(operatorSet)];
    }

    function _create(OperatorSet memory operatorSet, address[] calldata strategies, address slasher) private {
        bytes32 key = _key(operatorSet);
        if (isOperatorSet(operatorSet)) revert InvalidOperatorSet();
        emit OperatorSetCreated(operatorSet);
        for (uint256 i; i < strategies.length; ++i) {
            if (_hasStrategy[key][strategies[i]]) revert StrategyAlreadyInOperatorSet();
            _hasStrategy[key][strategies[i]] = true;
            _strategies[key].push(strategies[i]);
            emit StrategyAddedToOperatorSet(operatorSet, strategies[i]);
        }
        if (slasher == address(0)) revert InputAddressZero();
        _slashers[key] = slasher;
        emit SlasherUpdated(operatorSet, slasher, uint32(block.number));
    }

    function _key(OperatorSet memory operatorSet) private pure returns (bytes32) {
        return bytes32(abi.encodePacked(operatorSet.avs, uint96(operatorSet.id)));
    }
}
