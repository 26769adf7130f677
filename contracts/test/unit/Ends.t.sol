// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {TaskMarket} from "../../src/TaskMarket.sol";
import {IDisputeGame} from "../../src/interfaces/IDisputeGame.sol";
import {ITaskMarket, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {Fixture} from "../Fixture.sol";

/// @dev A game that the test opens and decides by hand.
contract ManualGame {
    mapping(bytes32 task => uint256) public openGames;

    function open(bytes32 task, address) external returns (uint256) {
        return ++openGames[task];
    }

    function decide(bytes32 task) external {
        --openGames[task];
    }
}

contract EndsTest is Fixture {
    Order private order;
    bytes32 private task;
    uint256 private price;
    uint256 private collateral;

    function setUp() public override {
        super.setUp();
        order = _order();
        task = _post(order);
        vm.roll(block.number + 5);
        (price, collateral) = _accept(order);
    }

    function test_Close_PaysTheExecutorAndReturnsTheRest() public {
        _commit(task);
        _reveal(task);
        _pass(task);
        vm.expectEmit(address(market));
        emit ITaskMarket.Closed(task, price, order.maxPrice - price);
        vm.prank(anybody);
        market.close(order);

        _assertState(task, State.Final);
        assertEq(market.outputsRootOf(task), ROOT, "the result stays");
        assertEq(_balance(operator), 10 ether + price, "executor");
        assertEq(_held(operator), 0, "collateral");
        assertEq(_balance(client), 10 ether - price, "client");
    }

    /// @dev Invariant 3 at its edge.
    function test_RevertWhen_ClosedInTheLastBlockOfTheWindow() public {
        _commit(task);
        _reveal(task);
        uint256 challengeBy = market.deadlineOf(task);
        vm.roll(challengeBy);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.TooEarly.selector, challengeBy, challengeBy));
        market.close(order);
    }

    function test_RevertWhen_ClosedTwice() public {
        _commit(task);
        _reveal(task);
        _pass(task);
        market.close(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Revealed, State.Final));
        market.close(order);
    }

    function test_RevertWhen_AGameIsOpen() public {
        ManualGame game = new ManualGame();
        market = new TaskMarket(manager, IDisputeGame(address(game)), p);
        _prepay(client, 1 ether);
        _prepay(operator, 1 ether);
        order = _order();
        task = _post(order);
        _accept(order);
        _commit(task);
        _reveal(task);
        game.open(task, anybody);
        game.open(task, rival);
        _pass(task);

        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.GamesOpen.selector, task, 2));
        market.close(order);
        game.decide(task);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.GamesOpen.selector, task, 1));
        market.close(order);
        game.decide(task);
        market.close(order);
        _assertState(task, State.Final);
    }

    function test_Fail_WithoutACommitRefundsTheClientAndBurnsThePenalty() public {
        _pass(task);
        _assertFails();
    }

    function test_Fail_WithoutARevealRefundsTheClientAndBurnsThePenalty() public {
        _commit(task);
        _pass(task);
        _assertFails();
        assertEq(market.outputsRootOf(task), 0, "a commitment is no result");
    }

    function test_RevertWhen_FailedBeforeTheDeadline() public {
        uint256 commitBy = market.deadlineOf(task);
        vm.roll(commitBy);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.TooEarly.selector, commitBy, commitBy));
        market.fail(order);
        _commit(task);
        uint256 revealBy = market.deadlineOf(task);
        vm.roll(revealBy);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.TooEarly.selector, revealBy, revealBy));
        market.fail(order);
    }

    function test_RevertWhen_ARevealedTaskIsFailed() public {
        _commit(task);
        _reveal(task);
        _pass(task);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Committed, State.Revealed));
        market.fail(order);
    }

    function test_Burn_SendsThePenaltiesAway() public {
        _pass(task);
        market.fail(order);
        uint256 penalty = Terms.penalty(p, price);
        vm.expectEmit(address(market));
        emit ITaskMarket.Withdrawn(market.BURN(), market.BURN(), penalty);
        vm.prank(anybody);
        market.burn();
        assertEq(token.balanceOf(market.BURN()), penalty, "burned");
        assertEq(_balance(market.BURN()), 0, "balance");
    }

    function _assertFails() private {
        uint256 penalty = price / 4 + p.gMiss;
        vm.expectEmit(address(market));
        emit ITaskMarket.Failed(task, order.maxPrice, penalty);
        vm.prank(anybody);
        market.fail(order);

        _assertState(task, State.Failed);
        assertEq(_balance(client), 10 ether, "client");
        assertEq(_balance(operator), 10 ether - penalty, "executor");
        assertEq(_held(operator), 0, "collateral");
        assertEq(_balance(market.BURN()), penalty, "burned");
        assertEq(_balance(anybody), 0, "invariant 7: nobody gains");
    }
}
