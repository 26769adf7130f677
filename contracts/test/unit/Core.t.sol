// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {
    CreateSetParamsV2,
    DeregisterParams,
    IAVSRegistrar,
    IStrategy,
    OperatorSet,
    RegisterParams
} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "../core/AllocationManager.sol";
import {Delegations} from "../core/Delegations.sol";
import {LocalCore} from "../core/LocalCore.sol";
import {Memberships} from "../core/Memberships.sol";
import {OperatorSets} from "../core/OperatorSets.sol";
import {Permissioned} from "../core/PermissionController.sol";
import {Strategy} from "../core/Strategy.sol";
import {StrategyManager} from "../core/StrategyManager.sol";
import {Fixture} from "../Fixture.sol";

/// @title The stand-in answers as EigenLayer's core does
/// @dev The test itself is an AVS and its registrar.
contract CoreTest is Fixture, IAVSRegistrar {
    error Rejected();

    bool private rejecting;
    AllocationManager private am;

    function setUp() public override {
        super.setUp();
        am = core.allocationManager;
    }

    function registerOperator(address who, address avs, uint32[] calldata ids, bytes calldata) external view {
        if (rejecting) revert Rejected();
        assertTrue(am.isMemberOfOperatorSet(who, OperatorSet(avs, ids[0])), "the core books before it calls back");
    }

    function deregisterOperator(address, address, uint32[] calldata) external view {
        if (rejecting) revert Rejected();
    }

    function supportsAVS(address) external pure returns (bool) {
        return true;
    }

    function test_CreateOperatorSets_ChecksInTheCoresOrder() public {
        CreateSetParamsV2[] memory sets = new CreateSetParamsV2[](1);
        sets[0] = CreateSetParamsV2(7, new address[](2), address(0));
        vm.prank(anybody);
        vm.expectRevert(Permissioned.InvalidPermissions.selector);
        am.createOperatorSets(address(this), sets);
        vm.expectRevert(OperatorSets.NonexistentAVSMetadata.selector);
        am.createOperatorSets(address(this), sets);
        am.updateAVSMetadataURI(address(this), "");
        vm.expectRevert(OperatorSets.StrategyAlreadyInOperatorSet.selector);
        am.createOperatorSets(address(this), sets);
        sets[0].strategies = new address[](1);
        vm.expectRevert(OperatorSets.InputAddressZero.selector);
        am.createOperatorSets(address(this), sets);
        sets[0].slasher = anybody;
        am.createOperatorSets(address(this), sets);
        vm.expectRevert(OperatorSets.InvalidOperatorSet.selector);
        am.createOperatorSets(address(this), sets);
        assertEq(am.getSlasher(OperatorSet(address(this), 8)), address(0), "unknown set");
    }

    function test_RegisterForOperatorSets_ChecksInTheCoresOrder() public {
        RegisterParams memory params = _set();
        vm.prank(anybody);
        vm.expectRevert(Permissioned.InvalidPermissions.selector);
        am.registerForOperatorSets(operator, params);
        vm.prank(anybody);
        vm.expectRevert(Memberships.InvalidOperator.selector);
        am.registerForOperatorSets(anybody, params);
        vm.startPrank(operator);
        params.operatorSetIds[0] = 8;
        vm.expectRevert(OperatorSets.InvalidOperatorSet.selector);
        am.registerForOperatorSets(operator, params);
        params.operatorSetIds[0] = 7;
        rejecting = true;
        vm.expectRevert(Rejected.selector);
        am.registerForOperatorSets(operator, params);
        rejecting = false;
        am.registerForOperatorSets(operator, params);
        vm.expectRevert(Memberships.AlreadyMemberOfSet.selector);
        am.registerForOperatorSets(operator, params);
    }

    function test_Deregister_LeavesTheOperatorSlashableForTheDelay() public {
        RegisterParams memory params = _set();
        OperatorSet memory set = OperatorSet(address(this), 7);
        DeregisterParams memory leave = DeregisterParams(operator, address(this), params.operatorSetIds);
        vm.prank(operator);
        am.registerForOperatorSets(operator, params);
        vm.prank(anybody);
        vm.expectRevert(Memberships.InvalidCaller.selector);
        am.deregisterFromOperatorSets(leave);
        rejecting = true;
        vm.expectRevert(Rejected.selector);
        am.deregisterFromOperatorSets(leave);
        rejecting = false;
        am.deregisterFromOperatorSets(leave); // the AVS itself may
        vm.expectRevert(Memberships.NotMemberOfSet.selector);
        am.deregisterFromOperatorSets(leave);

        assertFalse(am.isMemberOfOperatorSet(operator, set), "member");
        vm.roll(block.number + LocalCore.DELAY);
        assertTrue(am.isOperatorSlashable(operator, set), "in the last block");
        vm.prank(operator);
        vm.expectRevert(Memberships.AlreadyMemberOfSet.selector);
        am.registerForOperatorSets(operator, params);
        vm.roll(block.number + 1);
        assertFalse(am.isOperatorSlashable(operator, set), "after it");
        vm.prank(operator);
        am.registerForOperatorSets(operator, params);
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
        vm.expectRevert(Delegations.ActivelyDelegated.selector);
        core.delegationManager.registerAsOperator(address(0), 10, "");
        (bool isSet, uint32 delay) = am.getAllocationDelay(staker);
        assertTrue(isSet, "delay is set");
        assertEq(delay, 10, "delay");
    }

    function test_RevertWhen_TheStrategyIsNotWhitelisted() public {
        IStrategy strategy = new Strategy(address(core.strategyManager), token);
        vm.expectRevert(StrategyManager.StrategyNotWhitelisted.selector);
        core.strategyManager.depositIntoStrategy(strategy, token, 1);
    }

    function test_RevertWhen_SomebodyElseBooksForTheCore() public {
        vm.startPrank(anybody);
        vm.expectRevert(Strategy.OnlyStrategyManager.selector);
        core.strategy.deposit(token, 1);
        vm.expectRevert(Delegations.OnlyStrategyManagerOrEigenPodManager.selector);
        core.delegationManager.increaseDelegatedShares(anybody, core.strategy, 0, 1);
        vm.expectRevert(StrategyManager.OnlyStrategyWhitelister.selector);
        core.strategyManager.addStrategiesToDepositWhitelist(new IStrategy[](0));
        vm.expectRevert(Memberships.InvalidCaller.selector);
        am.setAllocationDelay(operator, 1);
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

    function _set() private returns (RegisterParams memory params) {
        CreateSetParamsV2[] memory sets = new CreateSetParamsV2[](1);
        sets[0] = CreateSetParamsV2(7, new address[](0), address(this));
        am.updateAVSMetadataURI(address(this), "");
        am.createOperatorSets(address(this), sets);
        uint32[] memory ids = new uint32[](1);
        ids[0] = 7;
        return RegisterParams(address(this), ids, "");
    }
}
