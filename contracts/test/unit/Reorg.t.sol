// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Invariant 39: messages that a reorg plays again on another history bind nobody to other terms
contract ReorgTest is MarketFixture {
    Order private order;
    bytes32 private task;

    function setUp() public override {
        super.setUp();
        order = _order();
        task = market.taskOf(order);
    }

    function test_RevertWhen_TheOrderBehindAnAcceptHasChanged() public {
        uint256 fork = vm.snapshotState();
        _post(order);
        _accept(order);

        vm.revertToState(fork);
        Order memory other = _order();
        other.exec = order.exec - 1;
        bytes32 otherTask = _post(other);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Open, State.None));
        vm.prank(signer);
        market.accept(operator, order, _nobodyElse());
        _assertState(otherTask, State.Open);
        assertEq(_held(operator), 0, "nothing is held");
    }

    function test_RevertWhen_ARivalAcceptedOnTheOtherFork() public {
        _post(order);
        bytes32 commitment = _commitment(task, SALT);
        uint256 fork = vm.snapshotState();
        _accept(order);
        _commit(task);

        vm.revertToState(fork);
        vm.prank(rivalSigner);
        market.accept(rival, order, _nobodyElse());
        vm.startPrank(signer);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Open, State.Accepted));
        market.accept(operator, order, _nobodyElse());
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.NotTheExecutor.selector, operator, rival));
        market.commit(operator, task, commitment);
        assertEq(_held(operator), 0, "nothing is held");
    }

    /// @dev A commitment names its operator: a rival that copies it cannot open it as its own.
    function test_RevertWhen_ARivalCopiesACommitment() public {
        _post(order);
        vm.startPrank(rivalSigner);
        market.accept(rival, order, _nobodyElse());
        market.commit(rival, task, _commitment(task, SALT));
        vm.stopPrank();
        _seed(order, false);
        vm.expectPartialRevert(IMarket.WrongOpening.selector);
        market.reveal(order, Opening(task, 0, ROOT, SALT));
    }

    function test_Accept_InALaterBlockOfTheOtherForkHasThatBlocksPrice() public {
        _post(order);
        uint256 fork = vm.snapshotState();
        (uint256 price,) = _accept(order);
        assertEq(price, 0.01 ether, "first fork");

        vm.revertToState(fork);
        vm.roll(block.number + 3);
        (price,) = _accept(order);
        assertEq(price, 0.013 ether, "second fork");
        uint256 collateral = Terms.collateral(p, price, order.verifiers, order.checkFee);
        assertEq(_held(operator), collateral, "collateral");
        _commit(task);
        _seed(order, false);
        _reveal(order);
        _pass(task);
        market.close(order);
        assertEq(_balance(operator), 10 ether + price, "paid as ordered");
    }
}
