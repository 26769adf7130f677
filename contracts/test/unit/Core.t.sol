// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IStrategy, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {DelegationManager} from "../core/DelegationManager.sol";
import {Delegations} from "../core/Delegations.sol";
import {LocalCore} from "../core/LocalCore.sol";
import {Permissioned} from "../core/PermissionController.sol";
import {
    EarnerTreeMerkleLeaf,
    RewardsCoordinator,
    RewardsMerkleClaim,
    TokenTreeMerkleLeaf
} from "../core/RewardsCoordinator.sol";
import {SlashedShares} from "../core/SlashedShares.sol";
import {Strategy} from "../core/Strategy.sol";
import {StrategyFactory} from "../core/StrategyFactory.sol";
import {StrategyManager} from "../core/StrategyManager.sol";
import {SignatureWithExpiry} from "../core/Types.sol";
import {Fixture} from "../Fixture.sol";

/// @title What the stand-in core does on a local chain beside the cases that test/conformance takes from EigenLayer's
contract CoreTest is Fixture {
    function test_Deploy_HasTheDelaysOfALocalChain() public view {
        assertEq(core.allocationManager.DEALLOCATION_DELAY(), LocalCore.DELAY, "deallocation");
        assertEq(core.delegationManager.minWithdrawalDelayBlocks(), LocalCore.DELAY, "withdrawal");
        assertEq(core.strategyManager.SLASH_RESOLUTION_DELAY_BLOCKS(), 20, "slash resolution");
        assertEq(address(core.strategy.underlyingToken()), address(token), "token");
    }

    function test_RegisterAsOperator_CountsEarlierAndLaterDeposits() public {
        address staker = makeAddr("staker");
        token.mint(staker, 3 ether);
        vm.startPrank(staker);
        token.approve(address(core.strategyManager), 3 ether);
        core.strategyManager.depositIntoStrategy(core.strategy, token, 1 ether);
        assertEq(core.delegationManager.operatorShares(staker, core.strategy), 0, "no operator yet");
        core.delegationManager.registerAsOperator(address(0), 10, "");
        assertEq(core.delegationManager.operatorShares(staker, core.strategy), 1 ether, "earlier");
        core.strategyManager.depositIntoStrategy(core.strategy, token, 2 ether);
        assertEq(core.delegationManager.operatorShares(staker, core.strategy), 3 ether, "later");
    }

    function test_RevertWhen_AnOperatorWantsToApproveItsStakers() public {
        vm.expectRevert(Delegations.ApproversAreAbsent.selector);
        core.delegationManager.registerAsOperator(anybody, 0, "");
    }

    function test_RevertWhen_TheStrategyIsNotWhitelisted() public {
        vm.expectRevert(StrategyManager.StrategyNotWhitelisted.selector);
        core.strategyManager.depositIntoStrategy(IStrategy(anybody), token, 1);
    }

    function test_RevertWhen_ATokenHasItsStrategy() public {
        vm.expectRevert(StrategyFactory.StrategyAlreadyExists.selector);
        core.strategyFactory.deployNewStrategy(token);
    }

    function test_RevertWhen_SomebodyElseBooksForTheCore() public {
        OperatorSet memory set = OperatorSet(anybody, 1);
        vm.startPrank(anybody);
        vm.expectRevert(Strategy.OnlyStrategyManager.selector);
        core.strategy.deposit(token, 1);
        vm.expectRevert(Strategy.OnlyStrategyManager.selector);
        core.strategy.withdraw(anybody, token, 1);
        vm.expectRevert(Delegations.OnlyStrategyManagerOrEigenPodManager.selector);
        core.delegationManager.increaseDelegatedShares(anybody, core.strategy, 0, 1);
        vm.expectRevert(DelegationManager.OnlyAllocationManager.selector);
        core.delegationManager.slashOperatorShares(operator, set, 1, core.strategy, 1e18, 0);
        vm.expectRevert(StrategyManager.OnlyStrategyWhitelister.selector);
        core.strategyManager.addStrategiesToDepositWhitelist(new IStrategy[](0));
        vm.expectRevert(SlashedShares.OnlyDelegationManager.selector);
        core.strategyManager.addShares(anybody, core.strategy, 1);
        vm.expectRevert(SlashedShares.OnlyDelegationManager.selector);
        core.strategyManager.removeDepositShares(operator, core.strategy, 1);
        vm.expectRevert(SlashedShares.OnlyDelegationManager.selector);
        core.strategyManager.withdrawSharesAsTokens(anybody, core.strategy, token, 1);
        vm.expectRevert(SlashedShares.OnlyDelegationManager.selector);
        core.strategyManager.increaseBurnOrRedistributableShares(set, 1, core.strategy, 1);
        vm.expectRevert(Permissioned.InvalidPermissions.selector);
        core.allocationManager.setAllocationDelay(operator, 1);
    }

    /// @dev Donated tokens raise what a share is worth, against 10^3 virtual shares and wei.
    function test_Strategy_RoundsSharesDown() public {
        assertEq(core.strategy.totalShares(), 2 ether, "two operators");
        token.mint(address(core.strategy), 1 ether);
        assertEq(core.strategy.sharesToUnderlyingView(2 ether), 3 ether - 500, "what all shares are worth");
        token.mint(anybody, 3);
        vm.startPrank(anybody);
        token.approve(address(core.strategyManager), 3);
        assertEq(core.strategyManager.depositIntoStrategy(core.strategy, token, 2), 1, "two wei for one share");
        vm.expectRevert(Strategy.NewSharesZero.selector);
        core.strategyManager.depositIntoStrategy(core.strategy, token, 1);
    }

    function test_Redelegate_QueuesWhatTheFormerOperatorHad() public {
        address staker = makeAddr("staker");
        token.mint(staker, 5 ether);
        vm.startPrank(staker);
        token.approve(address(core.strategyManager), 5 ether);
        core.strategyManager.depositIntoStrategy(core.strategy, token, 5 ether);
        SignatureWithExpiry memory none;
        core.delegationManager.delegateTo(operator, none, 0);
        assertEq(core.delegationManager.operatorShares(operator, core.strategy), 6 ether, "delegated");
        bytes32[] memory roots = core.delegationManager.redelegate(rival, none, 0);
        assertEq(core.delegationManager.getQueuedWithdrawalRoots(staker), roots, "queued");
        assertEq(core.delegationManager.delegatedTo(staker), rival, "redelegated");
        assertEq(core.delegationManager.operatorShares(operator, core.strategy), 1 ether, "left");
        assertEq(core.delegationManager.operatorShares(rival, core.strategy), 1 ether, "not yet deposited again");
    }

    function test_ProcessClaim_ClimbsFromEachLeaf() public {
        RewardsCoordinator rewards = new RewardsCoordinator(
            core.allocationManager, core.strategyManager, core.permissionController, address(this), 0
        );
        vm.warp(1_900_000_000);
        token.mint(address(rewards), 10);
        RewardsMerkleClaim memory claim;
        claim.tokenIndices = new uint32[](1);
        claim.tokenTreeProofs = new bytes[](1);
        claim.tokenLeaves = new TokenTreeMerkleLeaf[](1);
        bytes32[4] memory leaves;
        for (uint160 i; i < 4; ++i) {
            bytes32 tokenLeaf = rewards.calculateTokenLeafHash(TokenTreeMerkleLeaf(token, i + 1));
            leaves[i] = rewards.calculateEarnerLeafHash(EarnerTreeMerkleLeaf(address(i + 1), tokenLeaf));
        }
        bytes32[2] memory nodes =
            [keccak256(bytes.concat(leaves[0], leaves[1])), keccak256(bytes.concat(leaves[2], leaves[3]))];
        rewards.submitRoot(keccak256(bytes.concat(nodes[0], nodes[1])), uint32(block.timestamp) - 1);
        for (uint32 i; i < 4; ++i) {
            claim.tokenLeaves[0] = TokenTreeMerkleLeaf(token, i + 1);
            claim.earnerLeaf.earner = address(uint160(i) + 1);
            claim.earnerLeaf.earnerTokenRoot = rewards.calculateTokenLeafHash(claim.tokenLeaves[0]);
            claim.earnerTreeProof = bytes.concat(leaves[i ^ 1], nodes[(i >> 1) ^ 1]);
            claim.earnerIndex = i ^ 1;
            vm.startPrank(claim.earnerLeaf.earner);
            vm.expectRevert(RewardsCoordinator.InvalidClaimProof.selector);
            rewards.processClaim(claim, client);
            claim.earnerIndex = i;
            rewards.processClaim(claim, client);
            vm.stopPrank();
        }
        assertEq(token.balanceOf(client), 10, "all claimed");
    }
}
