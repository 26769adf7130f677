// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {IStrategy, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {Delegations} from "./Delegations.sol";
import {Pausable} from "./Pausable.sol";
import {PermissionController, Permissioned} from "./PermissionController.sol";
import {Slashing} from "./Slashing.sol";
import {StrategyManager} from "./StrategyManager.sol";
import {QueuedWithdrawalParams, SignatureWithExpiry, Withdrawal} from "./Types.sol";

/// @title Stand-in for EigenLayer's DelegationManager on a local chain
/// @notice Delegation, and the queue in which withdrawn shares stay slashable for the delay.
contract DelegationManager is Delegations {
    using Checkpoints for Checkpoints.Trace224;
    using EnumerableSet for EnumerableSet.Bytes32Set;

    event OperatorSharesSlashed(address indexed operator, address strategy, uint256 totalSlashedShares);
    event SlashingWithdrawalQueued(bytes32 withdrawalRoot, Withdrawal withdrawal, uint256[] sharesToWithdraw);
    event SlashingWithdrawalCompleted(bytes32 withdrawalRoot);
    event StakerForceUndelegated(address indexed staker, address indexed operator);
    event StakerUndelegated(address indexed staker, address indexed operator);

    error CallerCannotUndelegate();
    error InputArrayLengthMismatch();
    error InputArrayLengthZero();
    error NotActivelyDelegated();
    error OnlyAllocationManager();
    error OperatorsCannotUndelegate();
    error WithdrawalDelayNotElapsed();
    error WithdrawalNotQueued();
    error WithdrawerNotCaller();

    uint8 internal constant PAUSED_ENTER_WITHDRAWAL_QUEUE = 1;
    uint8 internal constant PAUSED_EXIT_WITHDRAWAL_QUEUE = 2;

    uint32 public immutable minWithdrawalDelayBlocks;

    mapping(bytes32 root => bool) public pendingWithdrawals;
    mapping(address staker => uint256) public cumulativeWithdrawalsQueued;
    mapping(bytes32 root => Withdrawal) private _withdrawals;
    mapping(address staker => EnumerableSet.Bytes32Set) private _roots;
    /// @dev All shares that ever entered the queue, by block, before any slash.
    mapping(address operator => mapping(IStrategy => Checkpoints.Trace224)) private _queued;

    constructor(
        AllocationManager allocationManager_,
        StrategyManager strategyManager_,
        PermissionController permissionController_,
        address pauser,
        uint32 withdrawalDelay
    ) Pausable(pauser) Permissioned(permissionController_) Delegations(allocationManager_, strategyManager_) {
        minWithdrawalDelayBlocks = withdrawalDelay;
    }

    /// @notice Queues everything that the staker deposited, by itself or by its operator.
    function undelegate(address staker)
        public
        onlyWhenNotPaused(PAUSED_ENTER_WITHDRAWAL_QUEUE)
        returns (bytes32[] memory roots)
    {
        address operator = delegatedTo[staker];
        if (operator == address(0)) revert NotActivelyDelegated();
        if (isOperator(staker)) revert OperatorsCannotUndelegate();
        if (msg.sender != staker) {
            if (!_canCall(operator)) revert CallerCannotUndelegate();
            emit StakerForceUndelegated(staker, operator);
        }
        (IStrategy[] memory strategies, uint256[] memory shares) = getDepositedShares(staker);
        uint256[] memory withdrawable = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            withdrawable[i] = _withdrawable(staker, strategies[i], shares[i]);
        }
        delegatedTo[staker] = address(0);
        emit StakerUndelegated(staker, operator);

        roots = new bytes32[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            Withdrawal memory withdrawal = _withdrawal(staker, operator, 1);
            withdrawal.strategies[0] = address(strategies[i]);
            uint256[] memory taken = new uint256[](1);
            taken[0] = withdrawable[i];
            withdrawal.scaledShares[0] = _take(staker, operator, strategies[i], shares[i], taken[0]);
            roots[i] = _queue(withdrawal, taken);
        }
    }

    function redelegate(address operator, SignatureWithExpiry memory signature, bytes32 salt)
        external
        returns (bytes32[] memory roots)
    {
        roots = undelegate(msg.sender);
        delegateTo(operator, signature, salt);
    }

    /// @notice Takes deposit shares of the caller, one withdrawal for each of `params`.
    function queueWithdrawals(QueuedWithdrawalParams[] calldata params)
        external
        onlyWhenNotPaused(PAUSED_ENTER_WITHDRAWAL_QUEUE)
        returns (bytes32[] memory roots)
    {
        roots = new bytes32[](params.length);
        for (uint256 i; i < params.length; ++i) {
            uint256 count = params[i].strategies.length;
            if (count != params[i].depositShares.length) revert InputArrayLengthMismatch();
            if (count == 0) revert InputArrayLengthZero();
            Withdrawal memory withdrawal = _withdrawal(msg.sender, delegatedTo[msg.sender], count);
            uint256[] memory taken = new uint256[](count);
            for (uint256 j; j < count; ++j) {
                IStrategy strategy = IStrategy(params[i].strategies[j]);
                uint256 shares = params[i].depositShares[j];
                withdrawal.strategies[j] = address(strategy);
                taken[j] = _withdrawable(msg.sender, strategy, shares);
                withdrawal.scaledShares[j] = _take(msg.sender, withdrawal.delegatedTo, strategy, shares, taken[j]);
            }
            roots[i] = _queue(withdrawal, taken);
        }
    }

    /// @notice Pays out, at the operator's magnitude in the last slashable block, or deposits again.
    function completeQueuedWithdrawal(Withdrawal calldata withdrawal, IERC20[] calldata tokens, bool receiveAsTokens)
        external
        onlyWhenNotPaused(PAUSED_EXIT_WITHDRAWAL_QUEUE)
    {
        if (tokens.length != withdrawal.strategies.length) revert InputArrayLengthMismatch();
        if (msg.sender != withdrawal.withdrawer) revert WithdrawerNotCaller();
        bytes32 root = calculateWithdrawalRoot(withdrawal);
        if (!pendingWithdrawals[root]) revert WithdrawalNotQueued();
        uint32 lastSlashable = withdrawal.startBlock + minWithdrawalDelayBlocks;
        if (block.number <= lastSlashable) revert WithdrawalDelayNotElapsed();
        uint64[] memory magnitudes =
            allocationManager.getMaxMagnitudesAtBlock(withdrawal.delegatedTo, withdrawal.strategies, lastSlashable);
        _roots[withdrawal.staker].remove(root);
        delete _withdrawals[root];
        delete pendingWithdrawals[root];
        emit SlashingWithdrawalCompleted(root);

        for (uint256 i; i < tokens.length; ++i) {
            IStrategy strategy = IStrategy(withdrawal.strategies[i]);
            uint256 shares = Slashing.mulWad(withdrawal.scaledShares[i], magnitudes[i]);
            if (shares == 0) continue;
            if (receiveAsTokens) {
                strategyManager.withdrawSharesAsTokens(withdrawal.staker, strategy, tokens[i], shares);
            } else {
                (uint256 previous, uint256 added) = strategyManager.addShares(withdrawal.staker, strategy, shares);
                _increase(withdrawal.staker, strategy, previous, added);
            }
        }
    }

    /// @notice Takes the shares of a slash from the operator and from what is queued, and marks them.
    function slashOperatorShares(
        address operator,
        OperatorSet calldata operatorSet,
        uint256 slashId,
        IStrategy strategy,
        uint64 previousMagnitude,
        uint64 newMagnitude
    ) external returns (uint256 total) {
        if (msg.sender != address(allocationManager)) revert OnlyAllocationManager();
        uint256 delegated = Slashing.slashed(operatorShares[operator][strategy], previousMagnitude, newMagnitude);
        total = delegated + _slashedInQueue(operator, strategy, previousMagnitude, newMagnitude);
        _decrease(operator, address(0), strategy, delegated);
        emit OperatorSharesSlashed(operator, address(strategy), total);
        strategyManager.increaseBurnOrRedistributableShares(operatorSet, slashId, strategy, total);
    }

    function getSlashableSharesInQueue(address operator, IStrategy strategy) external view returns (uint256) {
        uint64 magnitude = allocationManager.getMaxMagnitude(operator, address(strategy));
        return magnitude == 0 ? 0 : _slashedInQueue(operator, strategy, magnitude, 0);
    }

    function getQueuedWithdrawalRoots(address staker) external view returns (bytes32[] memory) {
        return _roots[staker].values();
    }

    function queuedWithdrawals(bytes32 root) external view returns (Withdrawal memory) {
        return _withdrawals[root];
    }

    function getQueuedWithdrawal(bytes32 root) public view returns (Withdrawal memory withdrawal, uint256[] memory) {
        withdrawal = _withdrawals[root];
        return (withdrawal, _left(withdrawal));
    }

    /// @notice The staker's queued withdrawals, and what each would pay if there are no more slashes.
    function getQueuedWithdrawals(address staker)
        external
        view
        returns (Withdrawal[] memory withdrawals, uint256[][] memory shares)
    {
        withdrawals = new Withdrawal[](_roots[staker].length());
        shares = new uint256[][](withdrawals.length);
        for (uint256 i; i < withdrawals.length; ++i) {
            (withdrawals[i], shares[i]) = getQueuedWithdrawal(_roots[staker].at(i));
        }
    }

    function calculateWithdrawalRoot(Withdrawal memory withdrawal) public pure returns (bytes32) {
        return keccak256(abi.encode(withdrawal));
    }

    function _withdrawal(address staker, address operator, uint256 count) private returns (Withdrawal memory) {
        return Withdrawal({
            staker: staker,
            delegatedTo: operator,
            withdrawer: staker,
            nonce: cumulativeWithdrawalsQueued[staker]++,
            startBlock: uint32(block.number),
            strategies: new address[](count),
            scaledShares: new uint256[](count)
        });
    }

    /// @return scaled what goes into the queue: the shares before any slash
    function _take(address staker, address operator, IStrategy strategy, uint256 shares, uint256 withdrawable)
        private
        returns (uint256 scaled)
    {
        scaled = Slashing.mulWad(shares, depositScalingFactor(staker, strategy));
        if (operator != address(0)) {
            Checkpoints.Trace224 storage queued = _queued[operator][strategy];
            queued.push(uint32(block.number), uint224(queued.latest() + scaled));
            _decrease(operator, staker, strategy, withdrawable);
        }
        if (strategyManager.removeDepositShares(staker, strategy, shares) == 0) {
            delete _scalingFactors[staker][strategy];
            emit DepositScalingFactorUpdated(staker, address(strategy), depositScalingFactor(staker, strategy));
        }
    }

    function _queue(Withdrawal memory withdrawal, uint256[] memory taken) private returns (bytes32 root) {
        root = calculateWithdrawalRoot(withdrawal);
        pendingWithdrawals[root] = true;
        _withdrawals[root] = withdrawal;
        _roots[withdrawal.staker].add(root);
        emit SlashingWithdrawalQueued(root, withdrawal, taken);
    }

    /// @dev As in the core, the difference of blocks panics on a chain that is younger than the delay.
    function _slashedInQueue(address operator, IStrategy strategy, uint64 previousMagnitude, uint64 newMagnitude)
        private
        view
        returns (uint256)
    {
        Checkpoints.Trace224 storage queued = _queued[operator][strategy];
        uint32 lastFree = uint32(block.number) - minWithdrawalDelayBlocks - 1;
        uint256 scaled = queued.latest() - queued.upperLookupRecent(lastFree);
        return Slashing.slashed(Slashing.mulWad(scaled, previousMagnitude), previousMagnitude, newMagnitude);
    }

    function _left(Withdrawal memory withdrawal) private view returns (uint256[] memory shares) {
        uint32 at = withdrawal.startBlock + minWithdrawalDelayBlocks;
        if (block.number < at) at = uint32(block.number);
        uint64[] memory magnitudes =
            allocationManager.getMaxMagnitudesAtBlock(withdrawal.delegatedTo, withdrawal.strategies, at);
        shares = new uint256[](magnitudes.length);
        for (uint256 i; i < shares.length; ++i) {
            shares[i] = Slashing.mulWad(withdrawal.scaledShares[i], magnitudes[i]);
        }
    }
}
