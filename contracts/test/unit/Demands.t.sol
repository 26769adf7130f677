// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Cause, ITaskMarket, Leaf, LeafProof, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Leaves that a client demands. The result: outputs a (300 float32 in two leaves) and b (1 bool), no new states
contract DemandsTest is MarketFixture {
    bytes private constant A = hex"0161";
    bytes private constant B = hex"0162";

    Order private order;
    bytes32 private task;
    bytes[2] private data;
    bytes32 private boolTree;
    bytes32 private states;

    function setUp() public override {
        super.setUp();
        data[0] = new bytes(1024);
        data[1] = new bytes(1024);
        for (uint256 i; i < 176; ++i) {
            (data[0][i], data[1][i]) = (bytes1(uint8(i)), bytes1(uint8(255 - i)));
        }
        bytes memory one = new bytes(1024);
        one[0] = 0x01;
        boolTree = Merkle.leafHash(one, 0);
        states = Merkle.bindingsRootOf(0, 0);
        (order, task) = _result(_root());
    }

    function test_Show_TheDemandedLeavesAndPaysTheExecutorAtTheEnd() public {
        Leaf[] memory leaves = _demandBoth();
        uint256 by = block.number + order.exec + p.clock;
        assertEq(market.deadlineOf(task), by, "deadline");
        assertEq(_balance(client), 10 ether - _escrow(order) - 2 * p.gChunk, "prepaid");
        vm.roll(by);
        vm.expectEmit(address(market));
        emit ITaskMarket.Shown(task, 0, data[0]);
        vm.expectEmit(address(market));
        emit ITaskMarket.Shown(task, 1, data[1]);
        vm.prank(anybody);
        market.show(order, leaves, _proofs());
        vm.roll(block.number + 1);
        market.close(order);
        _assertState(task, State.Final);
        assertEq(_balance(operator), 10 ether + order.minPrice + 2 * p.gChunk, "price and what was prepaid");
    }

    /// @dev Invariant 3.
    function test_RevertWhen_ClosedWhileADemandIsUnanswered() public {
        _demandBoth();
        vm.roll(block.number + order.exec + p.challenge + 1);
        uint256 by = market.deadlineOf(task);
        assertGt(by, block.number, "the demand outlives the challenges");
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, block.number, by));
        market.close(order);
    }

    function test_ADemand_ThatIsNotAnsweredConvicts() public {
        uint256 collateral = _held(operator);
        Leaf[] memory leaves = _demandBoth();
        _pass(task);
        LeafProof[] memory proofs = _proofs();
        vm.expectPartialRevert(IMarket.TooLate.selector);
        market.show(order, leaves, proofs);
        vm.expectEmit(address(market));
        emit ITaskMarket.Convicted(task, Cause.Demand, address(0), _escrow(order) + 2 * p.gChunk);
        market.close(order);
        assertEq(_balance(client), 10 ether, "escrow and what was prepaid");
        assertEq(market.outputsRootOf(task), _root(), "the result stays known");
        vm.prank(anybody);
        market.slash(order);
        assertEq(_balance(anybody), Terms.reward(p, order.minPrice), "W to the caller of slash");
        assertEq(_balance(market.BURN()), collateral - Terms.reward(p, order.minPrice), "the rest");
    }

    function test_Show_ThatThereIsNoSuchLeaf() public {
        Leaf[] memory leaves = new Leaf[](3);
        leaves[0] = Leaf(false, 0, 2); // a has two leaves
        leaves[1] = Leaf(false, 2, 0); // there are two outputs
        leaves[2] = Leaf(true, 0, 0); // there are no states
        _demand(leaves);
        LeafProof[] memory proofs = new LeafProof[](3);
        proofs[0] = _proof(0);
        (proofs[1].other, proofs[1].count) = (states, 2);
        proofs[1].tree = Merkle.node(_binding(0), _binding(1));
        proofs[2].other = Merkle.bindingsRootOf(2, proofs[1].tree);
        (proofs[0].data, proofs[0].path) = ("", new bytes32[](0));
        proofs[0].tree = _treeOfA();
        for (uint256 i; i < 3; ++i) {
            vm.expectEmit(address(market));
            emit ITaskMarket.Shown(task, i, "");
        }
        market.show(order, leaves, proofs);
    }

    function test_RevertWhen_ALeafIsAnother() public {
        Leaf[] memory leaves = _demandBoth();
        LeafProof[] memory proofs = _proofs();
        (proofs[0], proofs[1]) = (proofs[1], proofs[0]);
        _assertWrong(leaves, proofs, 0);
        proofs = _proofs();
        proofs[1].data[3] ^= 0x01;
        _assertWrong(leaves, proofs, 1);
        proofs = _proofs();
        proofs[0].data = new bytes(1023);
        _assertWrong(leaves, proofs, 0);
        proofs = _proofs();
        proofs[0].elements = 0; // "there is no such leaf"
        _assertWrong(leaves, proofs, 0);
        proofs = _proofs();
        proofs[0].count = 0;
        _assertWrong(leaves, proofs, 0);
        proofs = _proofs();
        proofs[0].dtype = 200;
        _assertWrong(leaves, proofs, 0);
        vm.expectRevert(abi.encodeWithSelector(IMarket.LengthMismatch.selector, 2, 1));
        market.show(order, leaves, new LeafProof[](1));
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotDemanded.selector, task));
        market.show(order, new Leaf[](2), proofs);
    }

    /// @dev A leaf of a wrong length has no root, and zero is not the root of one.
    function test_RevertWhen_AnExecutorThatRevealedZeroShowsALeafOfAWrongLength() public {
        vm.roll(order.acceptBy);
        (order, task) = _result(0);
        Leaf[] memory leaves = _demandBoth();
        LeafProof[] memory proofs = _proofs();
        (proofs[0].data, proofs[1].data) = (new bytes(1023), new bytes(1023));
        _assertWrong(leaves, proofs, 0);
    }

    function test_RevertWhen_DemandedTwiceTooLateByAnotherOrTooMuch() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheClient.selector, anybody, client));
        vm.prank(anybody);
        market.demand(order, new Leaf[](1));
        vm.startPrank(client);
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongLeaves.selector, 0, 32));
        market.demand(order, new Leaf[](0));
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongLeaves.selector, 33, 32));
        market.demand(order, new Leaf[](33));
        uint256 challengeBy = market.deadlineOf(task);
        vm.roll(challengeBy + 1);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, challengeBy + 1, challengeBy));
        market.demand(order, new Leaf[](1));
        vm.roll(challengeBy);
        vm.stopPrank();
        Leaf[] memory leaves = _demandBoth();
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.AlreadyDemanded.selector, task));
        vm.prank(client);
        market.demand(order, leaves);
        market.show(order, leaves, _proofs());
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.AlreadyDemanded.selector, task));
        vm.prank(client);
        market.demand(order, leaves);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotDemanded.selector, task));
        market.show(order, leaves, new LeafProof[](2));
    }

    function _assertWrong(Leaf[] memory leaves, LeafProof[] memory proofs, uint256 number) private {
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongLeaf.selector, number));
        market.show(order, leaves, proofs);
    }

    function _demandBoth() private returns (Leaf[] memory leaves) {
        leaves = new Leaf[](2);
        (leaves[0], leaves[1]) = (Leaf(false, 0, 0), Leaf(false, 0, 1));
        _demand(leaves);
    }

    function _demand(Leaf[] memory leaves) private {
        vm.expectEmit(address(market));
        emit ITaskMarket.Demanded(task, leaves, block.number + order.exec + p.clock);
        vm.prank(client);
        market.demand(order, leaves);
    }

    function _treeOfA() private view returns (bytes32) {
        return Merkle.node(Merkle.leafHash(data[0], 0), Merkle.leafHash(data[1], 0));
    }

    function _binding(uint256 tensor) private view returns (bytes32) {
        return tensor == 0
            ? Merkle.bindingHash(A, Merkle.tensorRootOf(DTypes.FLOAT32, 300, _treeOfA()))
            : Merkle.bindingHash(B, Merkle.tensorRootOf(DTypes.BOOL, 1, boolTree));
    }

    function _root() private view returns (bytes32) {
        return Merkle.outputsRoot(Merkle.bindingsRootOf(2, Merkle.node(_binding(0), _binding(1))), states);
    }

    function _proofs() private view returns (LeafProof[] memory proofs) {
        proofs = new LeafProof[](2);
        (proofs[0], proofs[1]) = (_proof(0), _proof(1));
    }

    /// @dev Of a leaf of output a.
    function _proof(uint256 index) private view returns (LeafProof memory proof) {
        (proof.other, proof.count, proof.name) = (states, 2, "a");
        proof.binding = new bytes32[](1);
        proof.binding[0] = _binding(1);
        (proof.dtype, proof.elements) = (uint8(DTypes.FLOAT32), 300);
        proof.data = bytes.concat(data[index]);
        proof.path = new bytes32[](1);
        proof.path[0] = Merkle.leafHash(data[1 - index], 0);
    }
}
