// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, Breach, Deal, Part, Place} from "../../src/interfaces/Deals.sol";
import {IChannels} from "../../src/interfaces/IChannels.sol";
import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Opening, Stage} from "../../src/interfaces/Tasks.sol";
import {Shares} from "../../src/libraries/Shares.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title Answers for shares, and shares that are justified
contract BatchChecksTest is ChannelFixture {
    bytes32 private _batch;
    bytes32 private _mix;
    bytes32[] private _roots;

    function _checked(uint256 calls) private {
        (,, _batch) = _committed(calls);
        _mix = _seedBatch(_batch);
        _roots = _shareRoots(_batch, _mix);
    }

    // ---- Answers ----

    function test_AnAnswerNeedsTheSeedAndItsTime() public {
        (,, bytes32 batch) = _committed(10);
        vm.expectPartialRevert(IMarket.NoSeed.selector);
        vm.prank(rivalSigner);
        channels.answer(rival, offer, 1, 0, SALT);
        bytes32 mix = _seedBatch(batch);
        uint256 index = _indexFor(batch, mix, rival, 0);
        vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownSlot.selector, batch, 17));
        vm.prank(rivalSigner);
        channels.answer(rival, offer, 1, 16, SALT);
        vm.expectPartialRevert(IMarket.NotTheSigner.selector);
        vm.prank(verifierSigner);
        channels.answer(rival, offer, 1, index, SALT);
        vm.expectPartialRevert(IMarket.NotYourSeat.selector);
        vm.prank(verifierSigner);
        channels.answer(verifier, offer, 1, index, SALT);
        (, uint256 checkBy,,,) = channels.windowsOf(offer, 1);
        vm.roll(checkBy + 1);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        vm.prank(rivalSigner);
        channels.answer(rival, offer, 1, index, SALT);
    }

    /// @dev INVARIANT 21
    function test_NobodyAnswersTwiceAndTheOperatorNever() public {
        _checked(10);
        _answerBatch(_batch, 1, _mix, rival, 0, _roots[0]);
        uint256 again = _indexAfter(rival);
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadyAnswered.selector, _batch, rival));
        vm.prank(rivalSigner);
        channels.answer(rival, offer, 1, again, SALT);
        uint256 own = _indexFor(_batch, _mix, operator, 0);
        vm.expectPartialRevert(IMarket.NotYourSeat.selector);
        vm.prank(signer);
        channels.answer(operator, offer, 1, own, SALT);
    }

    function _indexAfter(address who) private view returns (uint256) {
        for (uint256 i = _indexFor(_batch, _mix, who, 0) + 1; i < 16; ++i) {
            (address holder,) =
                manager.seatAt(uint256(keccak256(abi.encode(_mix, _batch, i))) % channels.batchAt(_batch).seats);
            if (holder == who) return i;
        }
        revert("drawn once only");
    }

    function test_ASeatThatIsYoungerThanTheCommitAnswersNothing() public {
        (,, bytes32 batch) = _committed(10);
        vm.prank(rival);
        manager.leave(rival);
        _enlist(rival, 1);
        bytes32 mix = _seedBatch(batch);
        uint256 index = _indexFor(batch, mix, rival, 0);
        vm.expectPartialRevert(IMarket.NotYourSeat.selector);
        vm.prank(rivalSigner);
        channels.answer(rival, offer, 1, index, SALT);
    }

    /// @dev INVARIANT 22
    function test_TheOperatorRevealsAfterTheAnswersOnce() public {
        _checked(10);
        (, uint256 checkBy, uint256 revealBy,,) = channels.windowsOf(offer, 1);
        vm.roll(checkBy);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        vm.prank(signer);
        channels.revealRoots(offer, 1, _roots);
        vm.roll(checkBy + 1);
        vm.expectPartialRevert(IMarket.NotTheSigner.selector);
        vm.prank(anybody);
        channels.revealRoots(offer, 1, _roots);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongRoots.selector, _batch, 2));
        vm.prank(signer);
        channels.revealRoots(offer, 1, new bytes32[](2));
        uint256 state = vm.snapshotState();
        vm.roll(revealBy + 1);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        vm.prank(signer);
        channels.revealRoots(offer, 1, _roots);
        vm.revertToState(state);
        vm.prank(signer);
        channels.revealRoots(offer, 1, _roots);
        vm.expectRevert(abi.encodeWithSelector(IChannels.AlreadyRevealed.selector, _batch));
        vm.prank(signer);
        channels.revealRoots(offer, 1, _roots);
    }

    function test_WhereTheOperatorKeepsSilentEveryAnswerAgrees() public {
        _checked(10);
        uint256 index = _answerBatch(_batch, 1, _mix, rival, 0, WRONG);
        (,, uint256 revealBy,,) = channels.windowsOf(offer, 1);
        vm.roll(revealBy);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        _openAnswer(_batch, 1, new bytes32[](0), index, WRONG);
        vm.roll(revealBy + 1);
        _openAnswer(_batch, 1, new bytes32[](0), index, WRONG);
        assertEq(uint8(channels.answerAt(_batch, index).stage), uint8(Stage.Agreed));
        _passDisputes(1);
        _closeBatch(1);
        uint256 funds = _funds(rival);
        _settle(1, index);
        assertEq(_funds(rival), funds + _bond() + Shares.fee(p, offer.checkPrice, 2, 1));
    }

    function test_OnlyAnswersAreOpened() public {
        _checked(10);
        _revealRoots(1, _roots);
        for (uint256 slot; slot < 3; ++slot) {
            vm.expectRevert(abi.encodeWithSelector(IMarket.UnknownSlot.selector, _batch, slot * 50));
            channels.reveal(offer, 1, _roots, Opening(_batch, slot * 50, WRONG, SALT));
        }
    }

    function test_TheLowestOfAShareIsPaid() public {
        _checked(10);
        uint256 a = _answerBatch(_batch, 1, _mix, rival, 0, _roots[0]);
        uint256 b = _answerBatch(_batch, 1, _mix, verifier, 0, _roots[0]);
        _revealRoots(1, _roots);
        _openAnswer(_batch, 1, _roots, a > b ? a : b, _roots[0]);
        _openAnswer(_batch, 1, _roots, a > b ? b : a, _roots[0]);
        _passDisputes(1);
        _closeBatch(1);
        uint256 funds = _funds(rival) + _funds(verifier);
        uint256 first = _funds(a < b ? rival : verifier);
        _settle(1, a);
        _settle(1, b);
        uint256 fee = Shares.fee(p, offer.checkPrice, 2, 1);
        assertEq(_funds(a < b ? rival : verifier), first + _bond() + fee);
        assertEq(_funds(rival) + _funds(verifier), funds + 2 * _bond() + fee);
        vm.expectPartialRevert(IMarket.NothingToSettle.selector);
        _settle(1, a);
    }

    function test_AnAnswerThatIsNotOpenedIsBurned() public {
        _checked(10);
        uint256 index = _answerBatch(_batch, 1, _mix, rival, 0, _roots[0]);
        _passDisputes(1);
        _closeBatch(1);
        uint256 burned = _funds(channels.BURN());
        _settle(1, index);
        assertEq(_heldOf(rival), 0);
        assertEq(_funds(channels.BURN()), burned + _bond());
    }

    // ---- Shares ----

    function test_AVerifierThatDiffersWithoutNeedPaysForTheProof() public {
        (uint256 index, uint256 parts) = _differed(10, WRONG);
        assertEq(parts, 1);
        assertEq(channels.batchAt(_batch).demands, 1);
        vm.prank(anybody);
        channels.justify(offer, 1, _roots, _part(_batch, _mix, 0, 0));
        assertEq(channels.batchAt(_batch).demands, 0);
        _passDisputes(1);
        _closeBatch(1);
        (uint256 operators, uint256 burned) = (_funds(operator), _funds(channels.BURN()));
        _settle(1, index);
        assertEq(_funds(operator), operators + _reward());
        assertEq(_funds(channels.BURN()), burned + _bond() - _reward());
    }

    /// @dev INVARIANT 51: 256 calls in four parts, in any order.
    function test_AShareOf256IsJustifiedInParts() public {
        offer.checkRate = 1e18;
        pool = _register(offer);
        (, uint256 parts) = _differed(256, WRONG);
        assertEq(parts, 4);
        _justifyInOrder(parts);
        vm.expectPartialRevert(IChannels.NoShareDemand.selector);
        channels.denounceShare(offer, 1, 0);
    }

    /// @dev Right of the third part stands a part of padding alone.
    function test_AShareOfThreePartsIsJustified() public {
        offer.checkRate = 1e18;
        pool = _register(offer);
        (, uint256 parts) = _differed(130, WRONG);
        assertEq(parts, 3);
        _justifyInOrder(parts);
    }

    function _justifyInOrder(uint256 parts) private {
        uint256[4] memory order = [uint256(2), 0, 1, 3];
        for (uint256 i; i < parts; ++i) {
            assertEq(channels.shareDemandAt(_batch, 0).justifiedAt, 0);
            channels.justify(offer, 1, _roots, _part(_batch, _mix, 0, order[i]));
        }
        assertEq(channels.shareDemandAt(_batch, 0).justifiedAt, block.number);
    }

    function test_OnlyTheDrawnCallsJustify() public {
        _differed(330, WRONG);
        Part memory part = _part(_batch, _mix, 0, 1);
        (part.calls[0], part.calls[1]) = (part.calls[1], part.calls[0]);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongShare.selector, _batch, 0, 1));
        channels.justify(offer, 1, _roots, part);
        part = _part(_batch, _mix, 0, 0);
        part.number = 1;
        vm.expectPartialRevert(IMarket.LengthMismatch.selector);
        channels.justify(offer, 1, _roots, part);
        part.number = 2;
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongShare.selector, _batch, 0, 2));
        channels.justify(offer, 1, _roots, part);
        part = _part(_batch, _mix, 0, 0);
        part.path = new bytes32[](0);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongShare.selector, _batch, 0, 0));
        channels.justify(offer, 1, _roots, part);
        part = _part(_batch, _mix, 0, 0);
        part.calls[3].outputsRoot = WRONG;
        vm.expectPartialRevert(IChannels.WrongCall.selector);
        channels.justify(offer, 1, _roots, part);
        bytes32[] memory others = new bytes32[](1);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongRoots.selector, _batch, 1));
        channels.justify(offer, 1, others, part);
    }

    function test_AShareThatIsNotJustifiedInTimeConvicts() public {
        (uint256 index,) = _differed(10, WRONG);
        uint256 last = block.number + offer.exec + p.clock;
        vm.roll(last);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        channels.denounceShare(offer, 1, 0);
        vm.expectPartialRevert(IChannels.DemandsOpen.selector);
        channels.close(offer, 1);
        vm.roll(last + 1);
        uint256 funds = _funds(rival);
        vm.prank(anybody);
        channels.denounceShare(offer, 1, 0);
        _assertBatch(_batch, BatchState.Convicted);
        assertEq(uint8(channels.judgmentAt(_batch).breach), uint8(Breach.Demand));
        _settle(1, index);
        assertEq(_funds(rival), funds + _reward() + _bond());
        channels.slash(offer, 1);
        vm.expectPartialRevert(IMarket.AlreadySlashed.selector);
        channels.slash(offer, 1);
    }

    /// @dev A root of a share that is right for false results does not help: who differed sees the calls and plays.
    function test_WhoDifferedChallengesACallOfTheShareWithItsBond() public {
        (uint256 index,) = _differed(10, WRONG);
        uint8 slot = uint8(index + 1);
        Place memory place = _place(_batch, 0, 3);
        vm.expectRevert(abi.encodeWithSelector(IChannels.NotJustified.selector, _batch, 0));
        vm.prank(rival);
        channels.challenge(rival, offer, 1, place, slot);
        channels.justify(offer, 1, _roots, _part(_batch, _mix, 0, 0));
        _passDisputesBut(0);
        uint256 held = _heldOf(rival);
        vm.prank(rivalSigner);
        uint256 gameId = channels.challenge(rival, offer, 1, place, slot);
        assertEq(_heldOf(rival), held);
        vm.expectRevert(abi.encodeWithSelector(IChannels.NotDiffered.selector, _batch, slot));
        vm.prank(rivalSigner);
        channels.challenge(rival, offer, 1, place, slot);
        Position memory position = _position(place, rival);
        vm.roll(block.number + position.executorLeft);
        uint256 funds = _funds(rival);
        channelsGame.timeout(gameId, position.pack());
        _assertBatch(_batch, BatchState.Convicted);
        _settle(1, index);
        assertEq(_funds(rival), funds + _reward() + _bond());
    }

    /// @dev INVARIANT 56
    function test_WhoDifferedHasItsPartOfTheSlashThoughItsBondIsBackBefore() public {
        (uint256 index,) = _differed(10, WRONG);
        Place memory place = _place(_batch, 0, 3);
        vm.prank(verifier);
        uint256 gameId = channels.challenge(verifier, offer, 1, place, 0);
        Position memory position = _position(place, verifier);
        vm.roll(block.number + position.executorLeft);
        channelsGame.timeout(gameId, position.pack());
        assertEq(channels.judgmentAt(_batch).winner, verifier);
        _settle(1, index);
        uint256[] memory indices = new uint256[](1);
        indices[0] = index;
        vm.expectRevert(abi.encodeWithSelector(IMarket.NothingToSettle.selector, _batch, index + 1));
        channels.settle(offer, 1, indices);
        channels.slash(offer, 1);
        (,, address[] memory winners) = bounty.noteOf(1);
        assertEq(winners.length, 1);
        assertEq(winners[0], rival);
    }

    function _passDisputesBut(uint256 blocks) private {
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, 1);
        vm.roll(disputeBy - blocks);
    }

    /// @dev A share of which rival has another root.
    function _differed(uint256 calls, bytes32 root) private returns (uint256 index, uint256 parts) {
        _checked(calls);
        index = _answerBatch(_batch, 1, _mix, rival, 0, root);
        _revealRoots(1, _roots);
        _openAnswer(_batch, 1, _roots, index, root);
        assertEq(uint8(channels.answerAt(_batch, index).stage), uint8(Stage.Differed));
        parts = (_share(_batch, _mix, 0).length + Shares.PART - 1) / Shares.PART;
    }
}
