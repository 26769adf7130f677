// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Answer, ITaskMarket, Opening, Order, Stage, State, Task} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Hidden answers of drawn verifiers, their exposure and their opening: invariants 21 to 25
contract AnswersTest is MarketFixture {
    Order private order;
    bytes32 private task;
    uint256 private bond;
    uint256 private reward;

    function setUp() public override {
        super.setUp();
        (order, task) = _commitAndSeed(ROOT, true);
        bond = Terms.bond(p, order.minPrice);
        reward = Terms.reward(p, order.minPrice);
    }

    function test_Answer_HoldsTheBondAndSaysNothing() public {
        uint256 index = _indexOf(task, rival);
        bytes32 commitment = _commitmentOf(task, rival, index + 1, ROOT, SALT);
        vm.expectEmit(address(market));
        emit ITaskMarket.Answered(task, index, rival, commitment);
        _answer(order, rival, ROOT);
        Answer memory a = market.answerOf(task, index);
        assertEq(a.operator, rival, "operator");
        assertEq(uint8(a.stage), uint8(Stage.Hidden), "stage");
        assertEq(a.claim, commitment, "claim");
        assertEq(market.taskAt(task).answered, uint64(1) << uint64(index), "answered");
        assertEq(_held(rival), bond, "bond");
        assertEq(_balance(rival), 10 ether - bond, "balance");
    }

    function test_Answer_InTheLastBlock() public {
        vm.roll(_checkBy(task));
        _answer(order, rival, ROOT);
        vm.roll(block.number + 1);
        _assertRefused(verifier, abi.encodeWithSelector(IMarket.TooLate.selector, _checkBy(task) + 1, _checkBy(task)));
    }

    function test_RevertWhen_TheTaskIsNotDrawn() public {
        vm.roll(order.acceptBy);
        (order, task) = _commitAndSeedAnother(false);
        _assertRefused(rival, abi.encodeWithSelector(ITaskMarket.NotDrawn.selector, task));
    }

    function test_RevertWhen_TheSeedIsNotKnown() public {
        order.nonce = 2;
        task = _post(order);
        _accept(order);
        _commit(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NoSeed.selector, market.seedBlockOf(task)));
        vm.prank(rivalSigner);
        market.answer(rival, order, 0, SALT);
    }

    /// @dev Invariant 21.
    function test_RevertWhen_TheExecutorAnswersItsOwnTask() public {
        uint256 index = _indexOf(task, operator);
        uint256 seat = market.seatOf(task, index);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotYourSeat.selector, operator, seat));
        vm.prank(signer);
        market.answer(operator, order, index, SALT);
    }

    /// @dev Invariant 21.
    function test_RevertWhen_AnOperatorAnswersTwice() public {
        uint256 first = _answer(order, rival, ROOT);
        for (uint256 i; i < 16; ++i) {
            (address holder,) = manager.seatAt(market.seatOf(task, i));
            if (holder != rival) continue;
            vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadyAnswered.selector, task, rival));
            vm.prank(rivalSigner);
            market.answer(rival, order, i, SALT);
        }
        assertEq(market.taskAt(task).answered, uint64(1) << uint64(first), "one answer");
    }

    function test_RevertWhen_TheSeatIsAnothers() public {
        uint256 index = _indexOf(task, verifier);
        uint256 seat = market.seatOf(task, index);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotYourSeat.selector, rival, seat));
        vm.prank(rivalSigner);
        market.answer(rival, order, index, SALT);
    }

    function test_RevertWhen_TheSeatIsNoOlderThanTheCommit() public {
        vm.startPrank(rival);
        manager.leave(rival);
        manager.enlist(rival, 1);
        vm.stopPrank();
        uint256 index = _indexOf(task, rival);
        uint256 seat = market.seatOf(task, index);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotYourSeat.selector, rival, seat));
        vm.prank(rivalSigner);
        market.answer(rival, order, index, SALT);
    }

    function test_RevertWhen_TheIndexIsBeyondTheDraws() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownSlot.selector, task, 17));
        vm.prank(rivalSigner);
        market.answer(rival, order, 16, SALT);
    }

    function test_RevertWhen_AnotherThanTheSignerAnswers() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, rival, rivalSigner));
        vm.prank(rival);
        market.answer(rival, order, 0, SALT);
    }

    /// @dev Invariant 17 for bonds.
    function test_RevertWhen_TheBondExceedsTheOwnersCap() public {
        uint256 tied = _tied(rival);
        uint256 cap = tied + bond - 1;
        vm.prank(rival);
        manager.setSigner(rivalSigner, uint96(cap), CAP);
        _assertRefused(rival, abi.encodeWithSelector(IMarket.CollateralCapExceeded.selector, rival, tied, bond, cap));
    }

    /// @dev Invariant 41: stake that left, or is leaving, answers nothing, however many seats it still has.
    function test_RevertWhen_TheStakeDoesNotCoverTheSeats() public {
        vm.startPrank(rival);
        _allocate(rival, address(manager), 0.5e18);
        vm.stopPrank();
        _assertRefused(
            rival, abi.encodeWithSelector(IServiceManager.SeatsNotCovered.selector, rival, 0.5 ether, 1 ether)
        );
    }

    // ---- Reveals ----

    /// @dev Invariant 22.
    function test_RevertWhen_ADrawnResultIsRevealedBeforeAllAnswersAreIn() public {
        vm.roll(_checkBy(task));
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, block.number, block.number));
        market.reveal(order, Opening(task, 0, ROOT, SALT));
        vm.roll(block.number + 1);
        _reveal(order);
        _assertState(task, State.Revealed);
    }

    /// @dev Invariants 22 and 45.
    function test_Reveal_OnceNobodyIsLeftToAnswer() public {
        uint256 by = market.deadlineOf(task);
        uint256 first = _answer(order, rival, ROOT);
        _assertTooEarly();
        uint256 second = _answer(order, verifier, ROOT);
        assertEq(market.deadlineOf(task), by, "nobody has to reveal earlier");
        _reveal(order);
        assertEq(market.answersBy(task), block.number + p.reveal, "the verifiers have as long as ever");
        assertEq(market.deadlineOf(task), block.number + Terms.challengeWindow(p, order.exec), "so has a challenger");
        _reveal(order, first + 1, ROOT);
        _reveal(order, second + 1, ROOT);
        _end(order);
        _assertState(task, State.Final);
    }

    /// @dev Nobody is obliged by the others' answers: the executor's last block is what it was.
    function test_Reveal_InTheLastBlockAlthoughNobodyWasLeft() public {
        _answer(order, rival, ROOT);
        _answer(order, verifier, ROOT);
        vm.roll(market.deadlineOf(task));
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        market.close(order);
        _reveal(order);
    }

    /// @dev Invariant 45: a seat that its operator left, and takes again, answers nothing.
    function test_Reveal_OnceTheOtherSeatsAreEmpty() public {
        _answer(order, rival, ROOT);
        vm.startPrank(verifier);
        manager.leave(verifier);
        manager.enlist(verifier, 1);
        vm.stopPrank();
        _reveal(order);
    }

    /// @dev Invariant 45: stake that is on its way out may come back until somebody prunes the seat.
    function test_Reveal_OnceTheOtherSeatsArePruned() public {
        _answer(order, rival, ROOT);
        vm.startPrank(verifier);
        _allocate(verifier, address(manager), 0.5e18);
        vm.stopPrank();
        _assertTooEarly();
        manager.prune(verifier);
        _reveal(order);
    }

    /// @dev A task that nobody can check waits as others do: what is unchecked is final no earlier.
    function test_RevertWhen_NobodyCanAnswerAndNobodyHas() public {
        vm.prank(rival);
        manager.leave(rival);
        vm.prank(verifier);
        manager.leave(verifier);
        _assertTooEarly();
    }

    /// @dev Invariant 24: who sees the opening in a reveal that is on its way can expose nobody.
    function test_RevertWhen_ExposedOnceNobodyIsLeftToAnswer() public {
        uint256 index = _answer(order, rival, ROOT);
        uint256 state = vm.snapshotState();
        _expose(0, ROOT);
        vm.revertToState(state);
        _answer(order, verifier, ROOT);
        bytes memory over = abi.encodeWithSelector(ITaskMarket.AnswersOver.selector, task);
        vm.expectRevert(over);
        market.expose(order, Opening(task, 0, ROOT, SALT));
        vm.expectRevert(over);
        market.expose(order, Opening(task, index + 1, ROOT, SALT));
    }

    function test_Reveal_EqualRootsAgree() public {
        uint256 index = _answer(order, rival, ROOT);
        _passAnswers(task);
        _reveal(order);
        vm.expectEmit(address(market));
        emit ITaskMarket.Revealed(task, index + 1, ROOT);
        _reveal(order, index + 1, ROOT);
        Task memory t = market.taskAt(task);
        assertEq(t.agreed, t.answered, "agreed");
        assertEq(t.differed, 0, "differed");
        assertEq(market.openGames(task), 0, "no game");
        assertEq(market.answerOf(task, index).claim, ROOT, "root");
    }

    function test_Reveal_ADifferentRootOpensAGameWithItsBond() public {
        uint256 index = _answer(order, rival, WRONG);
        _passAnswers(task);
        _reveal(order);
        vm.expectEmit(address(market));
        emit ITaskMarket.Challenged(task, 1, rival, bond);
        _reveal(order, index + 1, WRONG);
        assertEq(market.taskAt(task).differed, market.taskAt(task).answered, "differed");
        assertEq(market.openGames(task), 1, "game");
        assertEq(market.gameOf(task, 1).challenger, rival, "challenger");
        assertEq(market.gameOf(task, 1).slot, index + 1, "slot");
        assertEq(_held(rival), bond, "the bond is the answer's");
    }

    function test_RevertWhen_AVerifierOpensBeforeTheExecutorOrTooLate() public {
        uint256 index = _answer(order, rival, ROOT);
        Opening memory opening = Opening(task, index + 1, ROOT, SALT);
        _passAnswers(task);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        market.reveal(order, opening);
        _reveal(order);
        uint256 last = market.answersBy(task);
        assertEq(last, block.number + p.reveal, "answersBy");
        vm.roll(last + 1);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, last + 1, last));
        market.reveal(order, opening);
        vm.roll(last);
        market.reveal(order, opening);
    }

    function test_RevertWhen_AnAnswerIsOpenedTwiceWronglyOrNeverCame() public {
        uint256 index = _answer(order, rival, ROOT);
        _passAnswers(task);
        _reveal(order);
        vm.expectPartialRevert(IMarket.WrongOpening.selector);
        market.reveal(order, Opening(task, index + 1, WRONG, SALT));
        _reveal(order, index + 1, ROOT);
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadyOpened.selector, task, index + 1));
        market.reveal(order, Opening(task, index + 1, ROOT, SALT));
        uint256 none = _indexOf(task, verifier) + 1;
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownSlot.selector, task, none));
        market.reveal(order, Opening(task, none, ROOT, SALT));
    }

    function test_RevealMany_SkipsWhatIsOpenAlready() public {
        uint256 index = _answer(order, rival, ROOT);
        _passAnswers(task);
        Order[] memory orders = new Order[](2);
        Opening[] memory openings = new Opening[](2);
        (orders[0], orders[1]) = (order, order);
        (openings[0], openings[1]) = (Opening(task, 0, ROOT, SALT), Opening(task, index + 1, ROOT, SALT));
        market.revealMany(orders, openings);
        vm.recordLogs();
        market.revealMany(orders, openings);
        assertEq(vm.getRecordedLogs().length, 0, "nothing the second time");
        assertEq(market.taskAt(task).agreed, market.taskAt(task).answered, "both are open");
    }

    // ---- Exposure ----

    /// @dev Invariant 24.
    function test_Expose_TheExecutorCostsItOneRewardAndNotTheTask() public {
        uint256 collateral = _held(operator);
        _expose(0, ROOT);
        assertEq(_held(operator), collateral - reward, "collateral");
        assertEq(_balance(anybody), reward / 2, "half to the caller");
        assertEq(_balance(market.BURN()), reward - reward / 2, "half is burned");
        assertGt(manager.lockedStake(operator), 0, "stake untouched");
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadyOpened.selector, task, 0));
        market.expose(order, Opening(task, 0, ROOT, SALT));
        _passAnswers(task);
        _reveal(order);
        _end(order);
        assertEq(_held(operator), 0, "all is released");
        assertEq(_balance(operator), 10 ether + order.minPrice - reward, "paid, less what the exposure cost");
    }

    function test_Expose_AnAnswerCostsItsBondAndItsVoice() public {
        uint256 index = _answer(order, rival, ROOT);
        _expose(index + 1, ROOT);
        assertEq(_held(rival), 0, "bond");
        assertEq(_balance(anybody), bond / 2, "half to the caller");
        assertEq(_balance(market.BURN()), bond - bond / 2, "half is burned");
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadyOpened.selector, task, index + 1));
        market.expose(order, Opening(task, index + 1, ROOT, SALT));
        _passAnswers(task);
        _reveal(order);
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadyOpened.selector, task, index + 1));
        market.reveal(order, Opening(task, index + 1, ROOT, SALT));
        _end(order);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NothingToSettle.selector, task, index + 1));
        market.settle(order, index);
    }

    function test_RevertWhen_ExposedOnceTheRevealIsOpen() public {
        uint256 last = _checkBy(task);
        _passAnswers(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, last + 1, last));
        market.expose(order, Opening(task, 0, ROOT, SALT));
        vm.roll(order.acceptBy);
        (order, task) = _commitAndSeedAnother(false);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        market.expose(order, Opening(task, 0, ROOT, SALT));
    }

    function test_Expose_BeforeTheSeed() public {
        vm.roll(order.acceptBy);
        order = _another();
        task = _post(order);
        _accept(order);
        _commit(task);
        _expose(0, ROOT);
        assertEq(_balance(anybody), Terms.reward(p, _price(order, block.number)) / 2, "half");
    }

    function test_RevertWhen_ExposedAfterNoSeedCameInTime() public {
        vm.roll(order.acceptBy);
        order = _another();
        task = _post(order);
        _accept(order);
        _commit(task);
        uint256 last = market.seedBlockOf(task) + p.record;
        vm.roll(last + 1);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, last + 1, last));
        market.expose(order, Opening(task, 0, ROOT, SALT));
        vm.roll(last);
        _expose(0, ROOT);
    }

    function test_RevertWhen_ExposedWithAnotherOpening() public {
        vm.expectPartialRevert(IMarket.WrongOpening.selector);
        market.expose(order, Opening(task, 0, WRONG, SALT));
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownSlot.selector, task, 1));
        market.expose(order, Opening(task, 1, ROOT, SALT));
    }

    // ---- Settlement of a final task ----

    function test_Settle_PaysTheLowestThatAgreeAndReturnsEveryBond() public {
        uint256 first = _answer(order, rival, ROOT);
        uint256 second = _answer(order, verifier, ROOT);
        _passAnswers(task);
        _reveal(order);
        _reveal(order, first + 1, ROOT);
        _reveal(order, second + 1, ROOT);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Convicted, State.Revealed));
        market.settle(order, first);
        _end(order);
        assertEq(_balance(client), 10 ether - order.minPrice - order.checkFee, "invariant 10: one fee of two answers");
        uint256 lowest = first < second ? first : second;
        vm.expectEmit(address(market));
        emit ITaskMarket.Settled(task, lowest + 1, first < second ? rival : verifier, bond + order.checkFee);
        market.settle(order, lowest);
        market.settle(order, first ^ second ^ lowest);
        uint256 paid = _balance(rival) + _balance(verifier);
        assertEq(paid, 20 ether + order.checkFee, "one fee");
        assertEq(_balance(first < second ? rival : verifier), 10 ether + order.checkFee, "to the lowest index");
        vm.expectRevert(abi.encodeWithSelector(IMarket.NothingToSettle.selector, task, lowest + 1));
        market.settle(order, lowest);
    }

    function test_Settle_BurnsTheBondOfAnAnswerThatWasNotOpened() public {
        uint256 index = _answer(order, rival, ROOT);
        _passAnswers(task);
        _reveal(order);
        _end(order);
        assertEq(_balance(client), 10 ether - order.minPrice, "no fee");
        vm.expectEmit(address(market));
        emit ITaskMarket.Settled(task, index + 1, rival, 0);
        market.settle(order, index);
        assertEq(_held(rival), 0, "bond");
        assertEq(_balance(rival), 10 ether - bond, "balance");
        assertEq(_balance(market.BURN()), bond, "burned");
    }

    /// @dev Invariant 25.
    function test_Settle_NotAnsweringChangesNoBalance() public {
        _passAnswers(task);
        _reveal(order);
        _end(order);
        uint256 index = _indexOf(task, rival);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NothingToSettle.selector, task, index + 1));
        market.settle(order, index);
        assertEq(_balance(rival), 10 ether, "rival");
        assertEq(_balance(verifier), 10 ether, "verifier");
        assertEq(_balance(operator), 10 ether + order.minPrice, "the executor is paid: final, unchecked");
    }

    function _expose(uint256 slot, bytes32 root) private {
        Opening memory opening = Opening(task, slot, root, SALT);
        vm.expectEmit(address(market));
        uint256 held = slot == 0 ? Terms.reward(p, _price(order, market.taskAt(task).acceptedAt)) : bond;
        emit ITaskMarket.Exposed(task, slot, anybody, held / 2);
        vm.prank(anybody);
        market.expose(order, opening);
    }

    function _assertTooEarly() private {
        uint256 last = _checkBy(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, block.number, last));
        market.reveal(order, Opening(task, 0, ROOT, SALT));
    }

    function _another() private view returns (Order memory o) {
        o = _order();
        o.nonce = 7;
    }

    function _commitAndSeedAnother(bool drawn) private returns (Order memory o, bytes32 uuid) {
        o = _another();
        uuid = _post(o);
        _accept(o);
        _commit(uuid);
        _seed(o, drawn);
    }

    function _assertRefused(address who, bytes memory reason) private {
        bytes32 mix = market.seedOf(market.seedBlockOf(task));
        uint256 index = mix == 0 ? 0 : _indexOf(task, who);
        address hot = _signerOf(who);
        vm.expectRevert(reason);
        vm.prank(hot);
        market.answer(who, order, index, SALT);
    }
}
