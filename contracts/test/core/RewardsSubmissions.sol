// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IStrategy, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {Permissioned} from "./PermissionController.sol";
import {StrategyManager} from "./StrategyManager.sol";

struct StrategyAndMultiplier {
    IStrategy strategy;
    uint96 multiplier;
}

struct OperatorReward {
    address operator;
    uint256 amount;
}

struct OperatorDirectedRewardsSubmission {
    StrategyAndMultiplier[] strategiesAndMultipliers;
    IERC20 token;
    OperatorReward[] operatorRewards;
    uint32 startTimestamp;
    uint32 duration;
    string description;
}

/// @title What an AVS pays its operators for past days
/// @notice Absent: rewards without named operators, fees, splits.
abstract contract RewardsSubmissions is Permissioned {
    using SafeERC20 for IERC20;

    event OperatorDirectedAVSRewardsSubmissionCreated(
        address indexed caller,
        address indexed avs,
        bytes32 indexed submissionHash,
        uint256 submissionNonce,
        OperatorDirectedRewardsSubmission submission
    );
    event OperatorDirectedOperatorSetRewardsSubmissionCreated(
        address indexed caller,
        bytes32 indexed submissionHash,
        OperatorSet operatorSet,
        uint256 submissionNonce,
        OperatorDirectedRewardsSubmission submission
    );

    error AmountExceedsMax();
    error AmountIsZero();
    error DurationExceedsMax();
    error DurationIsZero();
    error InputArrayLengthZero();
    error InvalidAddressZero();
    error InvalidDurationRemainder();
    error InvalidOperatorSet();
    error InvalidStartTimestampRemainder();
    error OperatorsNotInAscendingOrder();
    error StartTimestampTooFarInPast();
    error StrategiesNotInAscendingOrder();
    error StrategyNotWhitelisted();
    error SubmissionNotRetroactive();

    uint32 public constant CALCULATION_INTERVAL_SECONDS = 1 days;
    uint32 public constant MAX_REWARDS_DURATION = 730 days;
    uint32 public constant MAX_RETROACTIVE_LENGTH = 90 days;
    uint32 public constant GENESIS_REWARDS_TIMESTAMP = 1_710_979_200;
    uint256 private constant MAX_AMOUNT = 1e38 - 1;

    AllocationManager public immutable allocationManager;
    StrategyManager public immutable strategyManager;

    mapping(address avs => uint256) public submissionNonce;
    mapping(address avs => mapping(bytes32 => bool)) public isOperatorDirectedAVSRewardsSubmissionHash;
    mapping(address avs => mapping(bytes32 => bool)) public isOperatorDirectedOperatorSetRewardsSubmissionHash;

    constructor(AllocationManager allocationManager_, StrategyManager strategyManager_) {
        allocationManager = allocationManager_;
        strategyManager = strategyManager_;
    }

    /// @notice Takes the sum of each submission from the caller.
    function createOperatorDirectedAVSRewardsSubmission(
        address avs,
        OperatorDirectedRewardsSubmission[] calldata submissions
    ) external checkCanCall(avs) {
        for (uint256 i; i < submissions.length; ++i) {
            uint256 nonce = submissionNonce[avs]++;
            bytes32 submissionHash = keccak256(abi.encode(avs, nonce, submissions[i]));
            isOperatorDirectedAVSRewardsSubmissionHash[avs][submissionHash] = true;
            uint256 total = _check(submissions[i]);
            emit OperatorDirectedAVSRewardsSubmissionCreated(msg.sender, avs, submissionHash, nonce, submissions[i]);
            submissions[i].token.safeTransferFrom(msg.sender, address(this), total);
        }
    }

    function createOperatorDirectedOperatorSetRewardsSubmission(
        OperatorSet calldata operatorSet,
        OperatorDirectedRewardsSubmission[] calldata submissions
    ) external checkCanCall(operatorSet.avs) {
        if (!allocationManager.isOperatorSet(operatorSet)) {
            revert InvalidOperatorSet();
        }
        for (uint256 i; i < submissions.length; ++i) {
            uint256 nonce = submissionNonce[operatorSet.avs]++;
            bytes32 submissionHash = keccak256(abi.encode(operatorSet, nonce, submissions[i]));
            isOperatorDirectedOperatorSetRewardsSubmissionHash[operatorSet.avs][submissionHash] = true;
            uint256 total = _check(submissions[i]);
            emit OperatorDirectedOperatorSetRewardsSubmissionCreated(
                msg.sender, submissionHash, operatorSet, nonce, submissions[i]
            );
            submissions[i].token.safeTransferFrom(msg.sender, address(this), total);
        }
    }

    function _check(OperatorDirectedRewardsSubmission calldata submission) private view returns (uint256 total) {
        _checkTime(submission.startTimestamp, submission.duration);
        _checkStrategies(submission.strategiesAndMultipliers);
        if (submission.operatorRewards.length == 0) revert InputArrayLengthZero();
        address previous;
        for (uint256 i; i < submission.operatorRewards.length; ++i) {
            OperatorReward calldata reward = submission.operatorRewards[i];
            if (reward.operator == address(0)) revert InvalidAddressZero();
            if (reward.operator <= previous) revert OperatorsNotInAscendingOrder();
            if (reward.amount == 0) revert AmountIsZero();
            previous = reward.operator;
            total += reward.amount;
        }
        if (total > MAX_AMOUNT) revert AmountExceedsMax();
        if (uint256(submission.startTimestamp) + submission.duration >= block.timestamp) {
            revert SubmissionNotRetroactive();
        }
    }

    function _checkTime(uint32 start, uint32 duration) private view {
        if (duration == 0) revert DurationIsZero();
        if (duration > MAX_REWARDS_DURATION) revert DurationExceedsMax();
        if (duration % CALCULATION_INTERVAL_SECONDS != 0) revert InvalidDurationRemainder();
        if (start % CALCULATION_INTERVAL_SECONDS != 0) revert InvalidStartTimestampRemainder();
        if (start < GENESIS_REWARDS_TIMESTAMP || start < block.timestamp - MAX_RETROACTIVE_LENGTH) {
            revert StartTimestampTooFarInPast();
        }
    }

    function _checkStrategies(StrategyAndMultiplier[] calldata strategies) private view {
        if (strategies.length == 0) revert InputArrayLengthZero();
        address previous;
        for (uint256 i; i < strategies.length; ++i) {
            address strategy = address(strategies[i].strategy);
            if (!strategyManager.strategyIsWhitelistedForDeposit(IStrategy(strategy))) revert StrategyNotWhitelisted();
            if (strategy <= previous) revert StrategiesNotInAscendingOrder();
            previous = strategy;
        }
    }
}
