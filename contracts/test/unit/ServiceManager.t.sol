// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ServiceManager} from "../../src/ServiceManager.sol";
import {DeregisterParams, OperatorSet, RegisterParams} from "../../src/interfaces/IEigenLayer.sol";
import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {Fixture} from "../Fixture.sol";

contract ServiceManagerTest is Fixture {
    function test_Constructor_MakesItselfAvsRegistrarAndSlasherOfOneSet() public view {
        OperatorSet memory set = OperatorSet(address(manager), manager.OPERATOR_SET());
        assertTrue(core.allocationManager.isOperatorSet(set), "set");
        assertEq(core.allocationManager.getSlasher(set), address(manager), "slasher");
        assertEq(address(core.allocationManager.getAVSRegistrar(address(manager))), address(manager), "registrar");
        address[] memory strategies = core.allocationManager.getStrategiesInOperatorSet(set);
        assertEq(strategies.length, 1, "one strategy");
        assertEq(strategies[0], address(core.strategy), "strategy");
        assertTrue(manager.supportsAVS(address(manager)), "itself");
        assertFalse(manager.supportsAVS(anybody), "nobody else");
    }

    function test_Members_JoinAndLeaveThroughTheCore() public {
        address fresh = makeAddr("fresh");
        vm.prank(fresh);
        core.delegationManager.registerAsOperator(address(0), 0, "");
        vm.expectEmit(address(manager));
        emit IServiceManager.OperatorJoined(fresh);
        vm.prank(fresh);
        core.allocationManager.registerForOperatorSets(fresh, RegisterParams(address(manager), new uint32[](1), ""));
        assertTrue(manager.isMember(fresh), "joined");

        vm.expectEmit(address(manager));
        emit IServiceManager.OperatorLeft(fresh);
        vm.prank(fresh);
        core.allocationManager.deregisterFromOperatorSets(DeregisterParams(fresh, address(manager), new uint32[](1)));
        assertFalse(manager.isMember(fresh), "left");
    }

    function test_SetSigner_IsTheOperatorsOwn() public {
        vm.expectEmit(address(manager));
        emit IServiceManager.SignerSet(operator, anybody, 5, 7);
        vm.prank(operator);
        manager.setSigner(anybody, 5, 7);
        (address hot, uint96 cap) = manager.signerOf(operator);
        uint96 stakeCap = manager.stakeCapOf(operator);
        assertEq(hot, anybody, "signer");
        assertEq(cap, 5, "cap of collateral");
        assertEq(stakeCap, 7, "cap of stake");
        (hot,) = manager.signerOf(rival);
        assertEq(hot, rivalSigner, "others keep theirs");
    }

    function test_StakeDelay_IsTheLesserOfBoth() public {
        assertEq(manager.stakeDelay(), 1_000, "local");
        vm.mockCall(
            address(core.delegationManager), abi.encodeWithSignature("minWithdrawalDelayBlocks()"), abi.encode(7)
        );
        assertEq(manager.stakeDelay(), 7, "withdrawal");
        vm.mockCall(address(core.allocationManager), abi.encodeWithSignature("DEALLOCATION_DELAY()"), abi.encode(6));
        assertEq(manager.stakeDelay(), 6, "deallocation");
    }

    function test_RevertWhen_TheCallbackDoesNotComeFromTheCore() public {
        bytes memory reason = abi.encodeWithSelector(IServiceManager.NotTheAllocationManager.selector, anybody);
        vm.startPrank(anybody);
        vm.expectRevert(reason);
        manager.registerOperator(anybody, address(manager), new uint32[](1), "");
        vm.expectRevert(reason);
        manager.deregisterOperator(anybody, address(manager), new uint32[](1));
    }

    function test_RevertWhen_TheCallbackIsForAnotherAvsOrSet() public {
        vm.startPrank(address(core.allocationManager));
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.WrongAVS.selector, anybody));
        manager.registerOperator(operator, anybody, new uint32[](1), "");
        uint32[] memory ids = new uint32[](2);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.WrongOperatorSets.selector, ids));
        manager.registerOperator(operator, address(manager), ids, "");
    }
}
