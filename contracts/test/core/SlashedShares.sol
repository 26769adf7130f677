// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {EnumerableMap} from "@openzeppelin/contracts/utils/structs/EnumerableMap.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {IStrategy, IStrategyManager, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {DelegationManager} from "./DelegationManager.sol";
import {Pausable} from "./Pausable.sol";
import {Strategy} from "./Strategy.sol";
import {BURN_ADDRESS, keyOf, setOf} from "./Types.sol";

/// @title Shares that slashes have marked, until somebody clears them to the set's recipient
abstract contract SlashedShares is IStrategyManager, Pausable {
    using EnumerableMap for EnumerableMap.AddressToUintMap;
    using EnumerableSet for EnumerableSet.Bytes32Set;
    using EnumerableSet for EnumerableSet.UintSet;

    event SlashResolutionBlockSet(OperatorSet operatorSet, uint256 slashId, uint32 resolutionBlock);
    event BurnOrRedistributableSharesIncreased(
        OperatorSet operatorSet, uint256 slashId, address strategy, uint256 shares
    );
    event BurnOrRedistributableSharesDecreased(
        OperatorSet operatorSet, uint256 slashId, address strategy, uint256 shares
    );

    error OnlyDelegationManager();
    error SlashResolutionDelayNotElapsed();
    error StrategyAlreadyInSlash();

    uint8 internal constant PAUSED_BURNING_AND_REDISTRIBUTION = 1;
    address public constant DEFAULT_BURN_ADDRESS = BURN_ADDRESS;

    DelegationManager public immutable delegation;
    uint32 public immutable SLASH_RESOLUTION_DELAY_BLOCKS;

    EnumerableSet.Bytes32Set private _pendingSets;
    mapping(bytes32 operatorSet => EnumerableSet.UintSet) private _pendingIds;
    mapping(bytes32 operatorSet => mapping(uint256 slashId => uint32)) private _resolutionBlocks;
    mapping(bytes32 operatorSet => mapping(uint256 slashId => EnumerableMap.AddressToUintMap)) private _marked;

    modifier onlyDelegationManager() {
        if (msg.sender != address(delegation)) revert OnlyDelegationManager();
        _;
    }

    constructor(DelegationManager delegation_, uint32 slashResolutionDelay) {
        delegation = delegation_;
        SLASH_RESOLUTION_DELAY_BLOCKS = slashResolutionDelay;
    }

    function increaseBurnOrRedistributableShares(
        OperatorSet calldata operatorSet,
        uint256 slashId,
        IStrategy strategy,
        uint256 shares
    ) external onlyDelegationManager {
        bytes32 key = keyOf(operatorSet);
        if (_pendingIds[key].add(slashId)) {
            _pendingSets.add(key);
            _resolutionBlocks[key][slashId] = uint32(block.number) + SLASH_RESOLUTION_DELAY_BLOCKS;
            emit SlashResolutionBlockSet(operatorSet, slashId, _resolutionBlocks[key][slashId]);
        }
        if (!_marked[key][slashId].set(address(strategy), shares)) revert StrategyAlreadyInSlash();
        emit BurnOrRedistributableSharesIncreased(operatorSet, slashId, address(strategy), shares);
    }

    /// @notice Pays the slash out by plain transfers; one that is unknown or cleared pays nothing.
    function clearBurnOrRedistributableShares(OperatorSet calldata operatorSet, uint256 slashId)
        external
        onlyWhenNotPaused(PAUSED_BURNING_AND_REDISTRIBUTION)
        returns (uint256[] memory amounts)
    {
        (address[] memory strategies,) = getBurnOrRedistributableShares(operatorSet, slashId);
        amounts = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            amounts[i] = clearBurnOrRedistributableSharesByStrategy(operatorSet, slashId, strategies[i]);
        }
    }

    function clearBurnOrRedistributableSharesByStrategy(
        OperatorSet calldata operatorSet,
        uint256 slashId,
        address strategy
    ) public onlyWhenNotPaused(PAUSED_BURNING_AND_REDISTRIBUTION) returns (uint256 amount) {
        bytes32 key = keyOf(operatorSet);
        if (block.number <= _resolutionBlocks[key][slashId]) revert SlashResolutionDelayNotElapsed();
        EnumerableMap.AddressToUintMap storage marked = _marked[key][slashId];
        (bool exists, uint256 shares) = marked.tryGet(strategy);
        if (!exists) return 0;
        marked.remove(strategy);
        if (marked.length() == 0) {
            delete _resolutionBlocks[key][slashId];
            _pendingIds[key].remove(slashId);
            if (_pendingIds[key].length() == 0) _pendingSets.remove(key);
        }
        emit BurnOrRedistributableSharesDecreased(operatorSet, slashId, strategy, shares);
        if (shares == 0) return 0;
        address recipient = delegation.allocationManager().getRedistributionRecipient(operatorSet);
        return Strategy(strategy).withdraw(recipient, Strategy(strategy).underlyingToken(), shares);
    }

    function getBurnOrRedistributableShares(OperatorSet calldata operatorSet, uint256 slashId)
        public
        view
        returns (address[] memory strategies, uint256[] memory shares)
    {
        EnumerableMap.AddressToUintMap storage marked = _marked[keyOf(operatorSet)][slashId];
        strategies = marked.keys();
        shares = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            shares[i] = marked.get(strategies[i]);
        }
    }

    function getBurnOrRedistributableShares(OperatorSet calldata operatorSet, uint256 slashId, address strategy)
        external
        view
        returns (uint256 shares)
    {
        (, shares) = _marked[keyOf(operatorSet)][slashId].tryGet(strategy);
    }

    function getBurnOrRedistributableCount(OperatorSet calldata operatorSet, uint256 slashId)
        external
        view
        returns (uint256)
    {
        return _marked[keyOf(operatorSet)][slashId].length();
    }

    function getPendingOperatorSets() external view returns (OperatorSet[] memory sets) {
        sets = new OperatorSet[](_pendingSets.length());
        for (uint256 i; i < sets.length; ++i) {
            sets[i] = setOf(_pendingSets.at(i));
        }
    }

    function getPendingSlashIds(OperatorSet calldata operatorSet) external view returns (uint256[] memory) {
        return _pendingIds[keyOf(operatorSet)].values();
    }

    /// @notice The last block in which the slash cannot be cleared; 0 once it is.
    function getSlashResolutionBlock(OperatorSet calldata operatorSet, uint256 slashId) external view returns (uint32) {
        return _resolutionBlocks[keyOf(operatorSet)][slashId];
    }
}
