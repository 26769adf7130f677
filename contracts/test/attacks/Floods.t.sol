// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Limits} from "../../src/libraries/Limits.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Attack 30: more games against a right result than its executor can play within its clocks
contract FloodAttacks is MarketFixture {
    /// @dev Games that operators promise to be able to play at once.
    uint256 private constant PLAYABLE = 8;
    uint256 private constant FUNDS = 10 ether;

    address private flooder = makeAddr("flooder");
    Order private order;
    bytes32 private task;
    uint256 private reward;
    uint256 private bond;

    function setUp() public override {
        super.setUp();
        _prepay(flooder, FUNDS);
        (order, task) = _result(ROOT);
        reward = Terms.reward(p, order.minPrice);
        bond = Terms.bond(p, order.minPrice);
    }

    /// @dev Invariant 43. An executor plays its oldest games, so that what convicts it is a crowded one: the flood's author
    /// gets W, and loses half of each further bond, which is more; the slash brings it nothing.
    function testFuzz_Attack30_AFloodThatConvictsCostsMoreThanItBrings(uint256 more) public {
        uint256 games = PLAYABLE + 1 + more % 24;
        Position memory position = _flood(games);
        _executorLoses(games, position);
        uint256 idle = games - 1 - Limits.FREE_GAMES;
        _collect(games);
        assertEq(_balance(flooder), FUNDS + reward - idle * (bond / 2), "W, less half of each idle crowded bond");
        assertLt(_balance(flooder) + order.minPrice, FUNDS, "nor does a client that gets its price back gain by it");
        (,, address[] memory finders) = bounty.noteOf(1);
        assertEq(finders.length, 0, "the slash is burned");
        assertEq(_held(flooder), 0, "nothing stays held");
    }

    /// @dev What a game proves it proves whatever else is open: nobody pays for having said so, too.
    function testFuzz_Attack30_AProvenLieCostsItsChallengersNothing(uint256 more, uint256 decides) public {
        uint256 games = 1 + more % 12;
        _flood(games);
        vm.prank(address(game));
        market.onGameEnded(task, 1 + decides % games, flooder, true, false);
        _collect(games);
        assertEq(_balance(flooder), FUNDS + reward, "every bond, and W");
        (,, address[] memory finders) = bounty.noteOf(1);
        assertEq(finders[0], flooder, "and half of the slash");
    }

    /// @dev A liar that keeps silent in a game that was opened early pays its challengers as it always did.
    function test_Attack30_TheFirstGamesArePaidInFull() public {
        Position memory first = _flood(1);
        _flood(9);
        _executorLoses(1, first);
        _collect(10);
        assertEq(_balance(flooder), FUNDS + reward, "every bond, and W");
        (,, address[] memory finders) = bounty.noteOf(1);
        assertEq(finders[0], flooder, "and half of the slash");
    }

    /// @dev Verifiers that were drawn open their games with their answers: they pay for no crowd.
    function test_Attack30_DrawnVerifiersAreNotOfTheCrowd() public {
        vm.roll(order.acceptBy);
        uint256 first;
        (order, task, first,) = _answered(WRONG, ROOT, ROOT);
        _flood(6);
        _reveal(order, first + 1, ROOT);
        assertFalse(market.gameOf(task, 7).crowded, "the verifier's");
        assertTrue(market.gameOf(task, 6).crowded, "a challenger's");
        uint256 before = _balance(rival);
        _executorLoses(6, _opened(task, flooder));
        vm.roll(market.answersBy(task) + 1);
        market.settle(order, first);
        assertEq(_balance(rival) - before, bond + order.checkFee, "bond and fee");
        market.slash(order);
        (,, address[] memory finders) = bounty.noteOf(1);
        assertEq(finders[0], rival, "who differed has half of the slash, whoever won which game");
    }

    /// @return position of the last one
    function _flood(uint256 games) private returns (Position memory position) {
        for (uint256 i; i < games; ++i) {
            (, position) = _challenge(order, flooder);
        }
    }

    /// @dev Bonds of idle games come back, and the slash is noted.
    function _collect(uint256 games) private {
        _assertState(task, State.Convicted);
        uint256 before = token.balanceOf(address(market));
        for (uint256 i = 1; i <= games; ++i) {
            if (!market.gameOf(task, i).ended) market.refund(order, i);
        }
        vm.roll(market.answersBy(task) + 1);
        market.slash(order);
        assertEq(token.balanceOf(address(market)), before, "credits");
        address[6] memory all = [client, operator, rival, verifier, flooder, market.BURN()];
        uint256 sum;
        for (uint256 i; i < all.length; ++i) {
            sum += _balance(all[i]) + _tied(all[i]);
        }
        assertEq(sum, before, "invariant 5: out = in, burned included");
    }
}
