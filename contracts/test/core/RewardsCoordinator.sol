// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {PermissionController, Permissioned} from "./PermissionController.sol";
import {RewardsSubmissions} from "./RewardsSubmissions.sol";
import {StrategyManager} from "./StrategyManager.sol";

struct EarnerTreeMerkleLeaf {
    address earner;
    bytes32 earnerTokenRoot;
}

struct TokenTreeMerkleLeaf {
    IERC20 token;
    uint256 cumulativeEarnings;
}

struct RewardsMerkleClaim {
    uint32 rootIndex;
    uint32 earnerIndex;
    bytes earnerTreeProof;
    EarnerTreeMerkleLeaf earnerLeaf;
    uint32[] tokenIndices;
    bytes[] tokenTreeProofs;
    TokenTreeMerkleLeaf[] tokenLeaves;
}

/// @title Stand-in for EigenLayer's RewardsCoordinator on a local chain
/// @notice Pays what an updater, from outside the chain, says that everybody has earned in all.
contract RewardsCoordinator is RewardsSubmissions {
    using SafeERC20 for IERC20;

    struct DistributionRoot {
        bytes32 root;
        uint32 rewardsCalculationEndTimestamp;
        uint32 activatedAt;
        bool disabled;
    }

    event DistributionRootSubmitted(
        uint32 indexed rootIndex,
        bytes32 indexed root,
        uint32 indexed rewardsCalculationEndTimestamp,
        uint32 activatedAt
    );
    event ClaimerForSet(address indexed earner, address indexed oldClaimer, address indexed claimer);
    event RewardsClaimed(
        bytes32 root,
        address indexed earner,
        address indexed claimer,
        address indexed recipient,
        address token,
        uint256 claimedAmount
    );

    error EarningsNotGreaterThanClaimed();
    error InputArrayLengthMismatch();
    error InvalidClaimProof();
    error InvalidEarnerLeafIndex();
    error InvalidProofLength();
    error InvalidTokenLeafIndex();
    error NewRootMustBeForNewCalculatedPeriod();
    error RewardsEndTimestampNotElapsed();
    error RootNotActivated();
    error UnauthorizedCaller();

    address public immutable rewardsUpdater;

    uint32 public activationDelay; // shares its word with the next, as in the core
    uint32 public currRewardsCalculationEndTimestamp;
    mapping(address earner => address) public claimerFor;
    mapping(address earner => mapping(IERC20 token => uint256)) public cumulativeClaimed;
    DistributionRoot[] private _roots;

    constructor(
        AllocationManager allocationManager_,
        StrategyManager strategyManager_,
        PermissionController permissionController_,
        address updater,
        uint32 activationDelay_
    ) Permissioned(permissionController_) RewardsSubmissions(allocationManager_, strategyManager_) {
        rewardsUpdater = updater;
        activationDelay = activationDelay_;
    }

    function submitRoot(bytes32 root, uint32 rewardsCalculationEndTimestamp) external {
        if (msg.sender != rewardsUpdater) revert UnauthorizedCaller();
        uint32 end = rewardsCalculationEndTimestamp;
        if (end <= currRewardsCalculationEndTimestamp) revert NewRootMustBeForNewCalculatedPeriod();
        if (end >= block.timestamp) revert RewardsEndTimestampNotElapsed();
        uint32 activatedAt = uint32(block.timestamp) + activationDelay;
        emit DistributionRootSubmitted(uint32(_roots.length), root, end, activatedAt);
        _roots.push(DistributionRoot(root, end, activatedAt, false));
        currRewardsCalculationEndTimestamp = end;
    }

    function setClaimerFor(address claimer) external {
        emit ClaimerForSet(msg.sender, claimerFor[msg.sender], claimer);
        claimerFor[msg.sender] = claimer;
    }

    /// @notice Pays what the leaves grant beyond what has been claimed before.
    function processClaim(RewardsMerkleClaim calldata claim, address recipient) external {
        _check(claim);
        address earner = claim.earnerLeaf.earner;
        address claimer = claimerFor[earner] == address(0) ? earner : claimerFor[earner];
        if (msg.sender != claimer) revert UnauthorizedCaller();
        for (uint256 i; i < claim.tokenLeaves.length; ++i) {
            TokenTreeMerkleLeaf calldata leaf = claim.tokenLeaves[i];
            uint256 claimed = cumulativeClaimed[earner][leaf.token];
            if (leaf.cumulativeEarnings <= claimed) revert EarningsNotGreaterThanClaimed();
            cumulativeClaimed[earner][leaf.token] = leaf.cumulativeEarnings;
            uint256 amount = leaf.cumulativeEarnings - claimed;
            leaf.token.safeTransfer(recipient, amount);
            bytes32 root = _roots[claim.rootIndex].root;
            emit RewardsClaimed(root, earner, claimer, recipient, address(leaf.token), amount);
        }
    }

    function getDistributionRootsLength() external view returns (uint256) {
        return _roots.length;
    }

    function getDistributionRootAtIndex(uint256 index) external view returns (DistributionRoot memory) {
        return _roots[index];
    }

    function calculateEarnerLeafHash(EarnerTreeMerkleLeaf calldata leaf) public pure returns (bytes32) {
        return keccak256(abi.encodePacked(uint8(0), leaf.earner, leaf.earnerTokenRoot));
    }

    function calculateTokenLeafHash(TokenTreeMerkleLeaf calldata leaf) public pure returns (bytes32) {
        return keccak256(abi.encodePacked(uint8(1), leaf.token, leaf.cumulativeEarnings));
    }

    function _check(RewardsMerkleClaim calldata claim) private view {
        DistributionRoot memory root = _roots[claim.rootIndex];
        if (block.timestamp < root.activatedAt) revert RootNotActivated();
        uint256 count = claim.tokenIndices.length;
        if (count != claim.tokenTreeProofs.length || count != claim.tokenLeaves.length) {
            revert InputArrayLengthMismatch();
        }
        bytes32 leaf = calculateEarnerLeafHash(claim.earnerLeaf);
        if (claim.earnerIndex >= 1 << claim.earnerTreeProof.length / 32) revert InvalidEarnerLeafIndex();
        _prove(root.root, leaf, claim.earnerIndex, claim.earnerTreeProof);
        for (uint256 i; i < count; ++i) {
            bytes calldata proof = claim.tokenTreeProofs[i];
            if (claim.tokenIndices[i] >= 1 << proof.length / 32) revert InvalidTokenLeafIndex();
            leaf = calculateTokenLeafHash(claim.tokenLeaves[i]);
            _prove(claim.earnerLeaf.earnerTokenRoot, leaf, claim.tokenIndices[i], proof);
        }
    }

    function _prove(bytes32 root, bytes32 node, uint256 index, bytes calldata proof) private pure {
        if (proof.length % 32 != 0) revert InvalidProofLength();
        for (uint256 i; i < proof.length; i += 32) {
            bytes32 sibling = bytes32(proof[i:i + 32]);
            node = keccak256(index & 1 == 0 ? bytes.concat(node, sibling) : bytes.concat(sibling, node));
            index >>= 1;
        }
        if (node != root) revert InvalidClaimProof();
    }
}
