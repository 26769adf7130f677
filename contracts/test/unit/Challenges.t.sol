// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Cause, Conviction, ITaskMarket, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Who may challenge, and what the end of a game moves
contract ChallengesTest is MarketFixture {
    Order private order;
    bytes32 private task;
    uint256 private bond;
    uint256 private reward;

    function setUp() public override {
        super.setUp();
        (order, task) = _result(WRONG);
        bond = Terms.bond(p, order.minPrice);
        reward = Terms.reward(p, order.minPrice);
    }

    function test_Challenge_OpensAGameAndHoldsTheBond() public {
        _prepay(anybody, bond);
        vm.expectEmit(address(market));
        emit ITaskMarket.Challenged(task, 1, anybody, bond);
        vm.prank(anybody);
        assertEq(market.challenge(anybody, order), 1, "gameId");
        assertEq(_held(anybody), bond, "bond");
        assertEq(_balance(anybody), 0, "balance");
        assertEq(market.openGames(task), 1, "games");
    }

    function test_Challenge_TakesWhatTheBalanceLacksFromTheCallersTokens() public {
        token.mint(anybody, bond);
        vm.startPrank(anybody);
        token.approve(address(market), bond);
        market.challenge(anybody, order);
        assertEq(token.balanceOf(anybody), 0, "tokens");
        assertEq(_held(anybody), bond, "bond");
    }

    function test_Challenge_ByASignerUnderItsCap() public {
        vm.prank(verifierSigner);
        market.challenge(verifier, order);
        assertEq(_held(verifier), bond, "bond");
        (uint256 tied, uint256 cap) = (_tied(verifier), _tied(verifier) + bond - 1);
        vm.prank(verifier);
        manager.setSigner(verifierSigner, uint96(cap), CAP);
        vm.expectRevert(abi.encodeWithSelector(IMarket.CollateralCapExceeded.selector, verifier, tied, bond, cap));
        vm.prank(verifierSigner);
        market.challenge(verifier, order);
        vm.prank(verifier);
        market.challenge(verifier, order);
        assertEq(_held(verifier), 2 * bond, "the owner is under no cap");
    }

    function test_RevertWhen_SomebodyElseChallengesInItsName() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, anybody, verifierSigner));
        vm.prank(anybody);
        market.challenge(verifier, order);
    }

    function test_RevertWhen_ChallengedTooLateOrTooEarly() public {
        uint256 challengeBy = market.deadlineOf(task);
        vm.roll(challengeBy + 1);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, challengeBy + 1, challengeBy));
        vm.prank(rival);
        market.challenge(rival, order);
        vm.roll(challengeBy);
        vm.prank(rival);
        market.challenge(rival, order);

        Order memory other = _order();
        other.nonce = 5;
        bytes32 open = _post(other);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, open, State.Revealed, State.Open));
        vm.prank(rival);
        market.challenge(rival, other);
    }

    function test_RevertWhen_AnotherThanTheGameEndsAGame() public {
        _challenge(order, rival);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheGame.selector, anybody));
        vm.prank(anybody);
        market.onGameEnded(task, 1, rival, true, false);
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownChallenge.selector, task, 2));
        vm.prank(address(game));
        market.onGameEnded(task, 2, rival, true, false);
    }

    /// @dev Invariants 4, 5 and 8.
    function test_ALostGame_ConvictsTheExecutorAndPaysAtOnce() public {
        uint256 collateral = _held(operator);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        vm.expectEmit(address(market));
        emit ITaskMarket.GameEnded(task, gameId, rival, true);
        vm.expectEmit(address(market));
        emit ITaskMarket.Convicted(task, Cause.Verdict, rival, _escrow(order));
        _executorLoses(gameId, position);
        _assertState(task, State.Convicted);
        Conviction memory c = market.convictionOf(task);
        assertEq(uint8(c.cause), uint8(Cause.Verdict), "cause");
        assertEq(c.winner, rival, "winner");
        assertFalse(c.slashed, "not yet");
        assertEq(_balance(client), 10 ether, "the whole escrow");
        assertEq(_held(operator), 0, "the whole collateral");
        assertEq(_balance(operator), 10 ether - collateral, "nothing comes back");
        assertEq(_balance(rival), 10 ether + reward, "bond and W");
        assertEq(_held(rival), 0, "bond");
        assertEq(_balance(market.BURN()), collateral - reward - order.checkFee, "the rest, less what verifiers may get");
    }

    /// @dev Invariant 9.
    function test_AWonGame_BurnsATenthOfTheBondAndTheShareWaits() public {
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        position = _publish(gameId, position, order);
        vm.roll(position.since + position.challengerLeft);
        vm.expectEmit(address(market));
        emit ITaskMarket.GameEnded(task, gameId, rival, false);
        game.timeout(gameId, position.pack());
        assertEq(_balance(rival), 10 ether - bond, "challenger");
        assertEq(_held(rival), 0, "bond");
        assertEq(_balance(market.BURN()), bond - reward, "burned");
        assertEq(_balance(operator) + _held(operator), 10 ether, "invariant 3: nothing before Final");
        market.close(order);
        assertEq(_balance(operator), 10 ether + order.minPrice + reward, "the share comes with Final");
    }

    /// @dev Invariant 2, and the bonds of games that a conviction made idle.
    function test_AConviction_MakesOtherGamesIdle() public {
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        (uint256 idle, Position memory other) = _challenge(order, verifier);
        other = _publish(idle, other, order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Convicted, State.Revealed));
        market.refund(order, idle);
        _executorLoses(gameId, position);

        uint256 burned = _balance(market.BURN());
        vm.roll(other.since + other.challengerLeft);
        game.timeout(idle, other.pack());
        assertEq(_held(verifier), bond, "what it decides after that changes nothing");
        assertEq(_balance(market.BURN()), burned, "burned");
        vm.expectEmit(address(market));
        emit ITaskMarket.BondReturned(task, idle, verifier, bond);
        vm.prank(anybody);
        market.refund(order, idle);
        assertEq(_balance(verifier), 10 ether, "bond back");
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownChallenge.selector, task, idle));
        market.refund(order, idle);
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownChallenge.selector, task, gameId));
        market.refund(order, gameId);
    }

    function test_AConviction_BurnsTheSharesOfBondsThatWereWonBefore() public {
        (uint256 lost, Position memory first) = _challenge(order, verifier);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        position = _publish(gameId, position, order);
        _challengerLoses(lost, first, order);
        uint256 burned = _balance(market.BURN());
        uint256 collateral = _held(operator);
        vm.prank(address(game));
        market.onGameEnded(task, gameId, rival, true, false);
        assertEq(_balance(market.BURN()) - burned, collateral - order.checkFee, "K less W and fees, and the share");
    }

    function test_MayAct_ForItselfOrByTheSigner() public view {
        assertTrue(market.mayAct(operator, operator), "itself");
        assertTrue(market.mayAct(operator, signer), "signer");
        assertFalse(market.mayAct(operator, anybody), "stranger");
        assertFalse(market.mayAct(anybody, address(0)), "no signer");
    }
}
