// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";
import {TestHeaders} from "../TestHeaders.sol";

/// @title Known attacks on markets for computation, played against the deployed contracts
/// @notice Numbers as in the README's list of attacks; each test says what the attacker is left with.
contract MarketAttacksTest is MarketFixture {
    /// @dev A verifier that repeats another's commitment cannot open it: it names slot and operator.
    function test_Attack01_ALazyVerifierCopiesAnAnswer() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        uint256 honest = _answer(order, rival, ROOT);
        uint256 lazy = _indexOf(task, verifier);
        bytes32 copied = market.answerOf(task, honest).claim;
        vm.prank(verifierSigner);
        market.answer(verifier, order, lazy, copied);
        _passAnswers(task);
        _reveal(order);
        vm.expectPartialRevert(IMarket.WrongOpening.selector);
        market.reveal(order, Opening(task, lazy + 1, ROOT, SALT));
        _reveal(order, honest + 1, ROOT);
        _end(order);
        market.settle(order, lazy);
        market.settle(order, honest);
        assertEq(_balance(verifier), 10 ether - Terms.bond(p, order.minPrice), "the copy costs its bond");
        assertEq(_balance(rival), 10 ether + order.checkFee, "work is paid");
    }

    /// @dev The executor's commitment, copied as an answer, cannot be opened either.
    function test_Attack01_ALazyVerifierCopiesTheExecutor() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        uint256 index = _indexOf(task, verifier);
        bytes32 copied = market.taskAt(task).claim;
        vm.prank(verifierSigner);
        market.answer(verifier, order, index, copied);
        _passAnswers(task);
        _reveal(order);
        vm.expectPartialRevert(IMarket.WrongOpening.selector);
        market.reveal(order, Opening(task, index + 1, ROOT, SALT));
    }

    /// @dev Somebody who sees a message first can send it: that does what its author wanted, in its author's name.
    function test_Attack02_FrontRunMessagesServeTheirAuthors() public {
        Order memory order = _order();
        bytes32 task = market.taskOf(order);
        bytes memory signature = _sign(clientKey, task);
        vm.prank(rival);
        market.post(order, signature);
        _assertState(task, State.Open);
        _accept(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.NotTheExecutor.selector, rival, operator));
        vm.prank(rivalSigner);
        market.commit(rival, task, _commitment(task, SALT));
        _commit(task, WRONG);
        _seed(order, false);
        vm.prank(rival);
        market.reveal(order, Opening(task, 0, WRONG, SALT));

        // A challenge cannot be taken over: a second one is a second game with its own bond.
        (, Position memory first) = _challenge(order, rival);
        _challenge(order, verifier);
        _executorLoses(1, first);
        address winner = market.convictionOf(task).winner;
        assertEq(winner, rival, "each plays its own game");
        market.refund(order, 2);
        assertEq(_balance(verifier), 10 ether, "the other loses nothing");
    }

    /// @dev Invariant 8. The executor convicts itself through a friend, and keeps what is not burned.
    function test_Attack05_SelfConvictionLosesHalfOfTheStakeAndTheCollateral() public {
        (Order memory order, bytes32 task) = _result(WRONG);
        uint256 reward = Terms.reward(p, order.minPrice);
        uint256 friends = _balance(operator) + _held(operator) + _balance(rival);
        uint256 stake = core.delegationManager.operatorShares(operator, core.strategy);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        _executorLoses(gameId, position);
        vm.roll(market.answersBy(task) + 1);
        vm.prank(rival);
        market.slash(order);
        vm.roll(block.number + 25);
        bounty.pay(1);
        uint256 slashed = stake - core.delegationManager.operatorShares(operator, core.strategy);
        uint256 left = _balance(operator) + _balance(rival) + slashed;
        uint256 s = Terms.stake(p, order.minPrice, 0, order.checkRate, order.verifiers);
        // What it had: `friends` and the slashed stake. What came back: half of the slash, and W.
        assertGe(friends + slashed - (left - slashed), s / 2 + reward + order.checkFee, "b*s and burned K");
        assertEq(_balance(client), 10 ether, "the client has everything back");
    }

    /// @dev A cheat that challenges itself first, and plays badly on purpose, blocks nobody and pays for it.
    function test_Attack05_ABoughtChallengerDecidesNothing() public {
        (Order memory order, bytes32 task) = _result(WRONG);
        _prepay(anybody, 1 ether);
        (uint256 bought, Position memory bad) = _challenge(order, anybody);
        (uint256 honest, Position memory good) = _challenge(order, rival);
        bad = _publish(bought, bad, order);
        vm.roll(good.since + good.executorLeft);
        vm.prank(anybody);
        game.timeout(bought, bad.pack());
        _assertState(task, State.Revealed);
        game.timeout(honest, good.pack());
        _assertState(task, State.Convicted);
        assertEq(_balance(anybody), 1 ether - Terms.bond(p, order.minPrice), "the bought challenger's bond is gone");
    }

    /// @dev Holding a result back costs the penalty if nobody was drawn, and the stake if somebody was.
    function test_Attack06_WithheldResults() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, false);
        _end(order);
        _assertState(task, State.Failed);
        assertEq(_balance(operator), 10 ether - Terms.penalty(p, order.minPrice), "h");

        order = _order();
        order.nonce = 2;
        task = _post(order);
        _accept(order);
        _commit(task);
        _seed(order, true);
        _end(order);
        _assertState(task, State.Convicted);
        vm.roll(market.answersBy(task) + 1);
        uint256 stake = core.delegationManager.operatorShares(operator, core.strategy);
        market.slash(order);
        assertLt(core.delegationManager.operatorShares(operator, core.strategy), stake, "s");
    }

    /// @dev Accepting and not committing costs h: no option on the client's time is free, and nobody else gains by it.
    function test_Attack07_TheFreeOptionHasAPrice() public {
        (Order memory order, bytes32 task) = _postAndAccept();
        _end(order);
        uint256 penalty = Terms.penalty(p, order.minPrice);
        assertEq(penalty, order.minPrice / 4 + p.gMiss, "a quarter of the price and the fixed part");
        assertEq(_balance(operator), 10 ether - penalty, "executor");
        assertEq(_balance(client), 10 ether, "client");
        assertEq(_balance(market.BURN()), penalty, "burned");
        _assertState(task, State.Failed);
    }

    /// @dev Invariant 28: griefers pay the executor for each game, and finality waits for the games they paid for only.
    function test_Attack09_GriefingChallengersPayForTheDefence() public {
        (Order memory order, bytes32 task) = _result(ROOT);
        uint256 challengeBy = market.deadlineOf(task);
        vm.roll(challengeBy);
        _prepay(anybody, 10 ether);
        uint256[5] memory ids;
        Position[5] memory positions;
        for (uint256 i; i < 5; ++i) {
            (ids[i], positions[i]) = _challenge(order, anybody);
            positions[i] = _publish(ids[i], positions[i], order);
        }
        vm.roll(block.number + positions[0].challengerLeft);
        for (uint256 i; i < 5; ++i) {
            game.timeout(ids[i], positions[i].pack());
        }
        assertLe(block.number, challengeBy + 2 * (order.exec + p.clock), "delay");
        market.close(order);
        uint256 share = Terms.bondShare(p, order.minPrice);
        assertEq(_balance(operator), 10 ether + order.minPrice + 5 * share, "5 * (G_DEF + 2P)");
        assertEq(_balance(anybody), 10 ether - 5 * Terms.bond(p, order.minPrice), "5 bonds");
    }

    /// @dev The seed is younger than the commit, and only the chain's own header is taken for it.
    function test_Attack11_NobodyChoosesTheSeed() public {
        (Order memory order, bytes32 task) = _postAndAccept();
        _commit(task);
        uint256 s = market.seedBlockOf(task);
        assertGe(s, block.number + p.lag, "after the commit");
        bytes memory chosen = TestHeaders.encode(s, _mixFor(order, false, 0));
        vm.roll(s + 1);
        vm.setBlockhash(s, keccak256(TestHeaders.encode(s, _mixFor(order, true, 0))));
        vm.expectPartialRevert(ITaskMarket.WrongHeader.selector);
        vm.prank(signer);
        market.seed(s, chosen);
        _seed(order, true);
        vm.prank(signer);
        market.seed(s, chosen); // a second record is a no-op
        (, bool drawn) = market.isDrawn(order);
        assertTrue(drawn, "as the chain said");
    }

    /// @dev No message needs the aggregator: a stranger brings a drawn task from post to its end.
    function test_Attack12_NobodyCanBeCensoredByTheAggregator() public {
        (Order memory order, bytes32 task, uint256 first, uint256 second) = _answered(ROOT, ROOT, ROOT);
        _reveal(order, first + 1, ROOT);
        _reveal(order, second + 1, ROOT);
        _end(order);
        vm.startPrank(anybody);
        market.settle(order, first);
        market.settle(order, second);
        _assertState(task, State.Final);
        assertEq(_held(rival) + _held(verifier) + _held(operator), 0, "nothing is held");
    }

    /// @dev The salt is no part of the draw.
    function testFuzz_Attack18_TheSaltDoesNotMoveTheDraw(bytes32 salt, bytes32 other, bytes32 mix) public {
        vm.assume(mix != 0);
        (Order memory order, bytes32 task) = _postAndAccept();
        uint256 fork = vm.snapshotState();
        bool[2] memory drawn;
        uint256[2] memory seats;
        for (uint256 i; i < 2; ++i) {
            vm.prank(signer);
            market.commit(operator, task, _commitment(task, i == 0 ? salt : other));
            _seedWith(market.seedBlockOf(task), mix);
            (, drawn[i]) = market.isDrawn(order);
            seats[i] = market.seatOf(task, 3);
            vm.revertToState(fork);
        }
        assertEq(drawn[0], drawn[1], "drawn");
        assertEq(seats[0], seats[1], "seats");
    }

    /// @dev An executor that reveals only what nobody checks is convicted for what it holds back.
    function test_Attack20_SelectiveReveal() public {
        (Order memory order, bytes32 task) = _commitAndSeed(WRONG, true);
        uint256 index = _answer(order, rival, ROOT);
        _end(order);
        _assertState(task, State.Convicted);
        _reveal(order, index + 1, ROOT);
        vm.roll(market.answersBy(task) + 1);
        market.settle(order, index);
        assertEq(_balance(rival), 10 ether + Terms.reward(p, order.minPrice) + order.checkFee, "paid for its work");
        assertEq(_balance(client), 10 ether, "escrow");
    }

    /// @dev Committing later, or not at all, to get another seed: each try costs h, and the seed is not known before.
    function test_Attack21_GrindingTheSeedCostsThePenalty() public {
        (Order memory order, bytes32 task) = _postAndAccept();
        uint256 tries;
        while (block.number <= market.deadlineOf(task)) {
            assertEq(market.seedOf(block.number + p.lag), 0, "the seed of a commit now is not known");
            vm.roll(block.number + 1);
            ++tries;
        }
        assertEq(tries, order.exec + 1, "waiting inside of exec is all there is");
        market.close(order);
        assertEq(_balance(operator), 10 ether - Terms.penalty(p, order.minPrice), "h for each task that is dropped");
    }

    /// @dev Seats that come or go after the commit change nothing for the task.
    function testFuzz_Attack22_SeatsCannotBeRolledAgain(uint8 more) public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        uint256[16] memory before;
        for (uint256 i; i < 16; ++i) {
            before[i] = market.seatOf(task, i);
        }
        _stakeMore(9 ether);
        _enlist(operator, 1 + more % 9);
        vm.prank(rival);
        manager.leave(rival);
        for (uint256 i; i < 16; ++i) {
            assertEq(market.seatOf(task, i), before[i], "seat");
        }
        uint256 index = _answer(order, verifier, ROOT);
        assertLt(index, 16, "who stayed can answer");
    }

    /// @dev Verifiers that cannot get the inputs stay silent at no cost; the executor is paid, the task is unchecked.
    function test_Attack23_InputsWithheldAgainstVerifiers() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        _passAnswers(task);
        _reveal(order);
        _end(order);
        assertEq(_balance(rival), 10 ether, "rival");
        assertEq(_balance(verifier), 10 ether, "verifier");
        assertEq(_balance(operator), 10 ether + order.minPrice, "executor");
        assertEq(_balance(client), 10 ether - order.minPrice, "the client's risk: P, and no fee");
        assertEq(market.taskAt(task).agreed, 0, "unchecked");
    }

    /// @dev A verifier that sells its answer gives the buyer what exposes it: half its bond, the rest burned.
    function test_Attack27_ABoughtVerifierCanBeExposedByItsBuyer() public {
        (Order memory order, bytes32 task) = _commitAndSeed(WRONG, true);
        uint256 index = _answer(order, rival, WRONG);
        vm.prank(operator);
        market.expose(order, Opening(task, index + 1, WRONG, SALT));
        uint256 bond = Terms.bond(p, order.minPrice);
        assertEq(_balance(rival), 10 ether - bond, "the seller's bond");
        assertEq(_balance(market.BURN()), bond - bond / 2, "half is burned");
        // It has no voice left: an honest seat still has its own.
        uint256 honest = _answer(order, verifier, ROOT);
        _passAnswers(task);
        _reveal(order, 0, WRONG);
        _reveal(order, honest + 1, ROOT);
        assertEq(market.openGames(task), 1, "the lie is disputed");
    }

    /// @dev Buying all drawn seats does not help against one outsider who looks.
    function test_Attack27_BuyingEveryVerifierLeavesEverybodyElse() public {
        (Order memory order, bytes32 task, uint256 first, uint256 second) = _answered(WRONG, WRONG, WRONG);
        _reveal(order, first + 1, WRONG);
        _reveal(order, second + 1, WRONG);
        _prepay(anybody, 1 ether);
        (uint256 gameId, Position memory position) = _challenge(order, anybody);
        _executorLoses(gameId, position);
        _assertState(task, State.Convicted);
        vm.roll(market.answersBy(task) + 1);
        market.settle(order, first);
        market.settle(order, second);
        assertEq(_balance(rival) + _balance(verifier), 20 ether, "agreeing with a lie is not paid");
        market.slash(order);
        (,, address[] memory list) = bounty.noteOf(1);
        assertEq(list[0], anybody, "the outsider gets the slash");
    }

    /// @dev Who answers first does not open the result for who would rather copy it.
    function test_Attack39_ALazyVerifierWaitsForAnEarlyReveal() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        _answer(order, rival, ROOT);
        uint256 last = _checkBy(task);
        vm.roll(last);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, last, last));
        market.reveal(order, Opening(task, 0, ROOT, SALT));
        _answer(order, verifier, WRONG); // a guess: who says anything says it before
        _reveal(order);
    }

    /// @dev Whatever seats do once nobody is left to answer, nobody answers any more, nor exposes what a reveal shows.
    function testFuzz_Attack39_AnEndOfTheAnswersIsForGood(uint256 seed, uint256 moves) public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        _answer(order, seed % 2 == 0 ? rival : verifier, ROOT);
        address other = seed % 2 == 0 ? verifier : rival;
        if (seed % 3 == 0) {
            _answer(order, other, ROOT);
        } else {
            vm.prank(other);
            manager.leave(other);
        }
        address late = makeAddr("late");
        _join(late, makeAddr("late signer"), 10 ether);
        address[4] memory all = [operator, rival, verifier, late];
        bool[4] memory uncovered;
        for (uint256 i = seed % 8; i < 8; ++i) {
            uint256 who = moves % 4;
            uint256 move = moves / 4 % 4;
            moves /= 16;
            vm.roll(block.number + moves % 2);
            if (move == 0 && manager.seatsOf(all[who]) == 0 && !uncovered[who]) _enlist(all[who], 1);
            vm.startPrank(all[who]);
            if (move == 1) manager.leave(all[who]);
            if (move == 2 && !uncovered[who]) _allocate(all[who], address(manager), 0.5e18);
            vm.stopPrank();
            uncovered[who] = uncovered[who] || move == 2;
            if (move == 3 && uncovered[who] && manager.seatsOf(all[who]) != 0) manager.prune(all[who]);
        }
        _assertNobodyAnswers(order, all);
        assertLe(block.number, _checkBy(task), "before the window is over");
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.AnswersOver.selector, task));
        market.expose(order, Opening(task, 0, ROOT, SALT));
        _reveal(order);
    }

    function _assertNobodyAnswers(Order memory order, address[4] memory all) private {
        for (uint256 i; i < 64; ++i) {
            address hot = _signerOf(all[i / 16]);
            vm.prank(hot);
            (bool answered,) =
                address(market).call(abi.encodeCall(market.answer, (all[i / 16], order, i % 16, bytes32(i))));
            assertFalse(answered, "invariant 45");
        }
    }
}
