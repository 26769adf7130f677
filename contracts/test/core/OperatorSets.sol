// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {CreateSetParamsV2, IAVSRegistrar, IAllocationManager, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {Pausable} from "./Pausable.sol";
import {Permissioned} from "./PermissionController.sol";
import {BEACON_CHAIN_ETH, BURN_ADDRESS, CreateSetParams, Delays, keyOf} from "./Types.sol";

/// @title Operator sets: their strategies, slashers, recipients, and the AVSs that have them
/// @notice Absent: sets older than slashers (`migrateSlashers`), and EIGEN as a strategy.
abstract contract OperatorSets is IAllocationManager, Pausable, Permissioned {
    using EnumerableSet for EnumerableSet.AddressSet;
    using EnumerableSet for EnumerableSet.UintSet;

    struct SlasherChange {
        address current;
        address pending;
        uint32 effectBlock;
    }

    event AVSMetadataURIUpdated(address indexed avs, string metadataURI);
    event AVSRegistrarSet(address avs, address registrar);
    event OperatorSetCreated(OperatorSet operatorSet);
    event RedistributionAddressSet(OperatorSet operatorSet, address redistributionRecipient);
    event StrategyAddedToOperatorSet(OperatorSet operatorSet, address strategy);
    event StrategyRemovedFromOperatorSet(OperatorSet operatorSet, address strategy);
    event SlasherUpdated(OperatorSet operatorSet, address slasher, uint32 effectBlock);

    error InputAddressZero();
    error InputArrayLengthMismatch();
    error InvalidAVSRegistrar();
    error InvalidOperatorSet();
    error InvalidRedistributionRecipient();
    error InvalidStrategy();
    error NonexistentAVSMetadata();
    error StrategyAlreadyInOperatorSet();
    error StrategyNotInOperatorSet();

    uint32 public immutable DEALLOCATION_DELAY;
    uint32 public immutable ALLOCATION_CONFIGURATION_DELAY;
    uint32 public immutable SLASHER_CONFIGURATION_DELAY;

    mapping(address avs => bool) private _hasMetadata;
    mapping(address avs => IAVSRegistrar) private _registrars;
    mapping(address avs => EnumerableSet.UintSet) private _ids;
    mapping(bytes32 operatorSet => SlasherChange) private _slashers;
    mapping(bytes32 operatorSet => address) private _recipients;
    mapping(bytes32 operatorSet => EnumerableSet.AddressSet) internal _strategies;

    constructor(Delays memory delays) {
        DEALLOCATION_DELAY = delays.deallocation;
        ALLOCATION_CONFIGURATION_DELAY = delays.configuration;
        SLASHER_CONFIGURATION_DELAY = delays.configuration;
    }

    function updateAVSMetadataURI(address avs, string calldata metadataURI) external checkCanCall(avs) {
        _hasMetadata[avs] = true;
        emit AVSMetadataURIUpdated(avs, metadataURI);
    }

    function setAVSRegistrar(address avs, IAVSRegistrar registrar) external checkCanCall(avs) {
        _registrars[avs] = registrar;
        if (!registrar.supportsAVS(avs)) revert InvalidAVSRegistrar();
        emit AVSRegistrarSet(avs, address(registrar));
    }

    function createOperatorSets(address avs, CreateSetParams[] calldata params) external checkCanCall(avs) {
        _checkMetadata(avs);
        for (uint256 i; i < params.length; ++i) {
            _create(OperatorSet(avs, params[i].operatorSetId), params[i].strategies, avs, BURN_ADDRESS);
        }
    }

    function createOperatorSets(address avs, CreateSetParamsV2[] calldata params) external checkCanCall(avs) {
        _checkMetadata(avs);
        for (uint256 i; i < params.length; ++i) {
            _create(OperatorSet(avs, params[i].operatorSetId), params[i].strategies, params[i].slasher, BURN_ADDRESS);
        }
    }

    function createRedistributingOperatorSets(
        address avs,
        CreateSetParamsV2[] calldata params,
        address[] calldata recipients
    ) external checkCanCall(avs) {
        if (params.length != recipients.length) revert InputArrayLengthMismatch();
        _checkMetadata(avs);
        for (uint256 i; i < params.length; ++i) {
            if (recipients[i] == address(0)) revert InputAddressZero();
            if (recipients[i] == BURN_ADDRESS) revert InvalidRedistributionRecipient();
            OperatorSet memory operatorSet = OperatorSet(avs, params[i].operatorSetId);
            _create(operatorSet, params[i].strategies, params[i].slasher, recipients[i]);
        }
    }

    function addStrategiesToOperatorSet(address avs, uint32 operatorSetId, address[] calldata strategies)
        external
        checkCanCall(avs)
    {
        OperatorSet memory operatorSet = OperatorSet(avs, operatorSetId);
        _checkExists(operatorSet);
        _add(operatorSet, strategies);
    }

    function removeStrategiesFromOperatorSet(address avs, uint32 operatorSetId, address[] calldata strategies)
        external
        checkCanCall(avs)
    {
        OperatorSet memory operatorSet = OperatorSet(avs, operatorSetId);
        _checkExists(operatorSet);
        for (uint256 i; i < strategies.length; ++i) {
            if (!_strategies[keyOf(operatorSet)].remove(strategies[i])) revert StrategyNotInOperatorSet();
            emit StrategyRemovedFromOperatorSet(operatorSet, strategies[i]);
        }
    }

    function updateSlasher(OperatorSet memory operatorSet, address slasher) external checkCanCall(operatorSet.avs) {
        _checkExists(operatorSet);
        SlasherChange storage change = _slashers[keyOf(operatorSet)];
        if (slasher == address(0)) revert InputAddressZero();
        if (change.pending == slasher && block.number < change.effectBlock) return;
        uint32 effectBlock = uint32(block.number) + SLASHER_CONFIGURATION_DELAY + 1;
        (change.current, change.pending, change.effectBlock) = (getSlasher(operatorSet), slasher, effectBlock);
        emit SlasherUpdated(operatorSet, slasher, effectBlock);
    }

    function isOperatorSet(OperatorSet memory operatorSet) public view returns (bool) {
        return _ids[operatorSet.avs].contains(operatorSet.id);
    }

    function getOperatorSetCount(address avs) external view returns (uint256) {
        return _ids[avs].length();
    }

    function getStrategiesInOperatorSet(OperatorSet memory operatorSet) external view returns (address[] memory) {
        return _strategies[keyOf(operatorSet)].values();
    }

    function getAVSRegistrar(address avs) public view returns (IAVSRegistrar) {
        IAVSRegistrar registrar = _registrars[avs];
        return address(registrar) == address(0) ? IAVSRegistrar(avs) : registrar;
    }

    function getSlasher(OperatorSet memory operatorSet) public view returns (address) {
        SlasherChange memory change = _slashers[keyOf(operatorSet)];
        return block.number >= change.effectBlock ? change.pending : change.current;
    }

    function getPendingSlasher(OperatorSet memory operatorSet) external view returns (address, uint32 effectBlock) {
        SlasherChange memory change = _slashers[keyOf(operatorSet)];
        if (block.number >= change.effectBlock) return (address(0), 0);
        return (change.pending, change.effectBlock);
    }

    function getRedistributionRecipient(OperatorSet memory operatorSet) public view returns (address) {
        address recipient = _recipients[keyOf(operatorSet)];
        return recipient == address(0) ? BURN_ADDRESS : recipient;
    }

    function isRedistributingOperatorSet(OperatorSet memory operatorSet) public view returns (bool) {
        return getRedistributionRecipient(operatorSet) != BURN_ADDRESS;
    }

    function _checkExists(OperatorSet memory operatorSet) internal view {
        if (!isOperatorSet(operatorSet)) revert InvalidOperatorSet();
    }

    function _checkMetadata(address avs) private view {
        if (!_hasMetadata[avs]) revert NonexistentAVSMetadata();
    }

    function _create(OperatorSet memory operatorSet, address[] calldata strategies, address slasher, address recipient)
        private
    {
        bytes32 key = keyOf(operatorSet);
        if (!_ids[operatorSet.avs].add(operatorSet.id)) revert InvalidOperatorSet();
        emit OperatorSetCreated(operatorSet);
        if (recipient != BURN_ADDRESS) {
            _recipients[key] = recipient;
            emit RedistributionAddressSet(operatorSet, recipient);
        }
        _add(operatorSet, strategies);
        if (slasher == address(0)) revert InputAddressZero();
        _slashers[key] = SlasherChange(slasher, slasher, uint32(block.number));
        emit SlasherUpdated(operatorSet, slasher, uint32(block.number));
    }

    function _add(OperatorSet memory operatorSet, address[] calldata strategies) private {
        bool redistributing = isRedistributingOperatorSet(operatorSet);
        for (uint256 i; i < strategies.length; ++i) {
            if (redistributing && strategies[i] == BEACON_CHAIN_ETH) revert InvalidStrategy();
            if (!_strategies[keyOf(operatorSet)].add(strategies[i])) revert StrategyAlreadyInOperatorSet();
            emit StrategyAddedToOperatorSet(operatorSet, strategies[i]);
        }
    }
}
