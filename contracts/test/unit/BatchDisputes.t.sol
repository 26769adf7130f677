// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, Breach, Deal, LineProof, Place} from "../../src/interfaces/Deals.sol";
import {IChannels} from "../../src/interfaces/IChannels.sol";
import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Leaf, LeafProof, Order} from "../../src/interfaces/Tasks.sol";
import {Lines} from "../../src/libraries/Lines.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title Games about calls, and demands
contract BatchDisputesTest is ChannelFixture {
    bytes32 private _batch;

    function setUp() public override {
        super.setUp();
        (,, _batch) = _committed(10);
    }

    // ---- Games ----

    function test_AWonGameConvictsAndEverybodyHasItsOwn() public {
        Place memory place = _place(_batch, 0, 7);
        uint256 funds = _funds(rival);
        (uint256 gameId, Position memory position) = _play(place, rival);
        assertEq(_heldOf(rival), _bond());
        assertEq(channels.batchAt(_batch).games, 1);
        assertEq(channels.outputsRootOf(place.call.order), _resultOf(7));
        vm.roll(block.number + position.executorLeft);
        channelsGame.timeout(gameId, position.pack());

        _assertBatch(_batch, BatchState.Convicted);
        assertEq(_funds(rival), funds + _reward());
        assertEq(_heldOf(operator), 0);
        uint256 clients = _funds(client);
        LineProof[] memory proofs = _proofs(_batch, 0);
        channels.refund(offer, 1, proofs);
        assertEq(_funds(client), clients + 10 * PRICE, "INVARIANT 55");
        vm.expectRevert(abi.encodeWithSelector(IChannels.AlreadyRefunded.selector, _batch, 0));
        channels.refund(offer, 1, proofs);
        uint256 stake = manager.lockOf(_batch, operator).shares;
        channels.slash(offer, 1);
        (, uint256 amount, address[] memory winners) = bounty.noteOf(1);
        assertApproxEqAbs(amount, stake, 1_024);
        assertEq(winners.length, 1);
        assertEq(winners[0], rival);
    }

    function test_ALostGamePaysTheOperatorAndBurnsTheRest() public {
        Place memory place = _place(_batch, 0, 7);
        (uint256 gameId, Position memory position) = _play(place, rival);
        vm.expectRevert(abi.encodeWithSelector(IMarket.GamesOpen.selector, _batch, 1));
        channels.close(offer, 1);
        Order memory order = _orderOf(place.line.line.channel, 7);
        bytes32[] memory trace = new bytes32[](2);
        (trace[0], trace[1]) = (keccak256("tensor root"), _resultOf(7));
        vm.prank(signer);
        channelsGame.publish(gameId, position.pack(), order, HEADER, RECORDS, trace, new bytes32[](0));
        position = _publishedBy(position, order, trace);
        vm.roll(position.since + position.challengerLeft);
        uint256 burned = _funds(channels.BURN());
        channelsGame.timeout(gameId, position.pack());

        assertEq(channels.batchAt(_batch).games, 0);
        assertEq(channels.batchAt(_batch).won, 1);
        assertEq(_heldOf(rival), 0);
        assertEq(_funds(channels.BURN()), burned + _bond() - _reward());
        uint256 funds = _funds(operator);
        _closeBatch(1);
        _assertBatch(_batch, BatchState.Failed); // nobody recorded a seed
        assertEq(_funds(operator), funds + _collateral() + _reward());
        uint256 clients = _funds(client);
        channels.refund(offer, 1, _proofs(_batch, 0));
        assertEq(_funds(client), clients + 10 * PRICE);
    }

    /// @dev INVARIANT 52
    function test_ACallIsDisputedByTheOrderThatNamesItsPlace() public {
        Place memory place = _place(_batch, 0, 7);
        place.order.nonce += 1 << 64;
        _refused(place, IMarket.WrongTask.selector);
        place = _place(_batch, 0, 7);
        place.call.outputsRoot = WRONG;
        _refused(place, IChannels.WrongCall.selector);
        place = _place(_batch, 0, 7);
        place.call.index = 8;
        _refused(place, IChannels.WrongCall.selector);
        place = _place(_batch, 0, 7);
        place.line.line.count += 1;
        _refused(place, IChannels.WrongLine.selector);
        place = _place(_batch, 0, 7);
        place.line.position = 1;
        _refused(place, IChannels.WrongLine.selector);
    }

    function test_ACallIsDisputedUntilTheWindowEnds() public {
        Place memory place = _place(_batch, 0, 7);
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, 1);
        vm.roll(disputeBy + 1);
        _refused(place, IMarket.TooLate.selector);
        vm.roll(disputeBy);
        _play(place, rival);
    }

    /// @dev INVARIANT 43
    function test_WhereTooManyGamesAreOpenTheClockProvesNothing() public {
        Place memory place = _place(_batch, 0, 7);
        for (uint256 i; i < 4; ++i) {
            _play(place, rival);
        }
        (uint256 gameId, Position memory position) = _play(place, verifier);
        (uint256 other,) = _play(_place(_batch, 0, 2), rival);
        vm.roll(block.number + position.executorLeft);
        channelsGame.timeout(gameId, position.pack());
        assertTrue(channels.judgmentAt(_batch).crowded);
        uint256 held = _heldOf(rival);
        uint256 funds = _funds(rival);
        bytes32 task = _place(_batch, 0, 2).call.order;
        channels.refundBond(offer, 1, task, other);
        channels.refundBond(offer, 1, place.call.order, 1);
        assertEq(_heldOf(rival), held - 2 * _bond());
        assertEq(_funds(rival), funds + 2 * _bond() - _bond() / 2);
        vm.expectPartialRevert(IMarket.UnknownChallenge.selector);
        channels.refundBond(offer, 1, place.call.order, 1);
        channels.slash(offer, 1);
        (,, address[] memory winners) = bounty.noteOf(1);
        assertEq(winners.length, 0);
    }

    // ---- Demands ----

    function test_WhatIsDemandedIsShownAndPaid() public {
        (Place memory place, Leaf[] memory leaves, LeafProof[] memory proofs) = _demanded();
        uint256 funds = _funds(operator);
        vm.expectRevert(abi.encodeWithSelector(IChannels.DemandsOpen.selector, _batch, 1));
        channels.close(offer, 1);
        channels.show(offer, 1, place, "", leaves, proofs);
        assertEq(_funds(operator), funds + 2 * p.gChunk);
        assertEq(channels.batchAt(_batch).demands, 0);
        vm.expectPartialRevert(IMarket.NotDemanded.selector);
        channels.show(offer, 1, place, "", leaves, proofs);
        vm.expectPartialRevert(IChannels.AlreadyDemanded.selector);
        vm.prank(rival);
        channels.demand(offer, 1, 7, leaves);
    }

    function test_WhatIsShownWrongIsRefused() public {
        (Place memory place, Leaf[] memory leaves, LeafProof[] memory proofs) = _demanded();
        proofs[0].elements += 1;
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongLeaf.selector, 0));
        channels.show(offer, 1, place, "", leaves, proofs);
        vm.expectPartialRevert(IMarket.LengthMismatch.selector);
        channels.show(offer, 1, place, "", leaves, new LeafProof[](0));
        place = _place(_batch, 0, 6);
        vm.expectPartialRevert(IMarket.NotDemanded.selector);
        channels.show(offer, 1, place, "", leaves, proofs);
    }

    /// @dev INVARIANT 57: the chain has what a challenge takes, whoever sent the message and from wherever.
    function test_WhatIsShownIsAllThatAChallengeTakes() public {
        (Place memory place, Leaf[] memory leaves, LeafProof[] memory proofs) = _demanded();
        vm.expectEmit(address(channels));
        emit IChannels.Shown(_batch, 7, place.order, "", place.call);
        vm.expectEmit(address(channels));
        emit IChannels.LeafShown(_batch, 7, 0, proofs[0].data);
        channels.show(offer, 1, place, "", leaves, proofs);
    }

    /// @dev INVARIANT 57
    function test_TheVariablesOfAShownCallAreThoseOfItsOrder() public {
        bytes memory both = abi.encodePacked(uint8(2), "aa", int32(-3), uint8(1), "b", int32(7));
        bytes32[] memory hashes = new bytes32[](2);
        hashes[0] = Merkle.variableHash(abi.encodePacked(uint8(2), "aa"), -3);
        hashes[1] = Merkle.variableHash(abi.encodePacked(uint8(1), "b"), 7);
        Place memory place = _withVariables(Merkle.variablesRootOf(2, Merkle.treeRoot(hashes)));
        bytes[6] memory wrong = [
            bytes(""),
            abi.encodePacked(both, uint8(0)),
            abi.encodePacked(uint8(1), "b", int32(7), uint8(2), "aa", int32(-3)),
            abi.encodePacked(uint8(2), "aa", int32(-3)),
            abi.encodePacked(uint8(2), "aa", int32(-3), uint8(1), "b", int32(8)),
            abi.encodePacked(uint8(2), "aa", int32(-3), uint8(255), "b", int32(7))
        ];
        for (uint256 i; i < wrong.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IChannels.WrongVariables.selector, place.order.variables));
            channels.show(offer, 2, place, wrong[i], new Leaf[](0), new LeafProof[](0));
        }
        vm.expectEmit(address(channels));
        emit IChannels.Shown(channels.batchOf(pool, 2), 0, place.order, both, place.call);
        channels.show(offer, 2, place, both, new Leaf[](0), new LeafProof[](0));
    }

    function test_AnOrderWithoutVariablesIsShownWithNone() public {
        (Place memory place, Leaf[] memory leaves, LeafProof[] memory proofs) = _demanded();
        bytes[2] memory wrong = [bytes(hex"00"), abi.encodePacked(uint8(1), "b", int32(7))];
        for (uint256 i; i < wrong.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IChannels.WrongVariables.selector, bytes32(0)));
            channels.show(offer, 1, place, wrong[i], leaves, proofs);
        }
        place = _withVariables(Merkle.variablesRootOf(0, Merkle.NOTHING));
        channels.show(offer, 2, place, "", new Leaf[](0), new LeafProof[](0));
    }

    /// @dev INVARIANT 49: a call that is shown in the last block can be disputed, and only then does the batch close.
    function test_WhatIsShownInTheLastBlockCanStillBeDisputed() public {
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, 1);
        vm.roll(disputeBy);
        (Place memory place, Leaf[] memory leaves, LeafProof[] memory proofs) = _demanded();
        vm.roll(disputeBy + offer.exec + p.clock);
        channels.show(offer, 1, place, "", leaves, proofs);
        (,,,, uint256 later) = channels.windowsOf(offer, 1);
        assertEq(later, block.number + p.reveal);
        vm.roll(later);
        (, Position memory position) = _play(place, rival);
        assertLe(later + 2 * uint256(position.executorLeft) + p.margin, manager.lockOf(_batch, operator).end);
    }

    function test_WhatIsNotShownConvictsForWhoeverDemandedIt() public {
        (, Leaf[] memory leaves,) = _demanded();
        uint256 last = block.number + offer.exec + p.clock;
        vm.roll(last);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        channels.denounce(offer, 1, 7, leaves);
        vm.roll(last + 1);
        uint256 funds = _funds(rival);
        vm.prank(anybody);
        channels.denounce(offer, 1, 7, leaves);
        _assertBatch(_batch, BatchState.Convicted);
        assertEq(uint8(channels.judgmentAt(_batch).breach), uint8(Breach.Demand));
        assertEq(_funds(rival), funds + _reward() + 2 * p.gChunk);
    }

    function test_ADemandThatAConvictionMadeIdleIsPaidBack() public {
        (, Leaf[] memory leaves,) = _demanded();
        (uint256 gameId, Position memory position) = _play(_place(_batch, 0, 1), verifier);
        vm.roll(block.number + position.executorLeft);
        channelsGame.timeout(gameId, position.pack());
        uint256 funds = _funds(rival);
        channels.denounce(offer, 1, 7, leaves);
        assertEq(_funds(rival), funds + 2 * p.gChunk);
        vm.expectPartialRevert(IMarket.NotDemanded.selector);
        channels.denounce(offer, 1, 7, leaves);
    }

    function test_DemandsAreBounded() public {
        vm.expectPartialRevert(IMarket.WrongLeaves.selector);
        channels.demand(offer, 1, 10, new Leaf[](0));
        vm.expectPartialRevert(IMarket.WrongLeaves.selector);
        channels.demand(offer, 1, 9, new Leaf[](33));
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, 1);
        vm.roll(disputeBy + 1);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        channels.demand(offer, 1, 9, new Leaf[](0));
    }

    /// @dev Leaf 0 of the only input of call 7, by rival.
    function _demanded() private returns (Place memory place, Leaf[] memory leaves, LeafProof[] memory proofs) {
        place = _place(_batch, 0, 7);
        (leaves, proofs) = (new Leaf[](1), new LeafProof[](1));
        proofs[0] = _input(7);
        vm.prank(rival);
        channels.demand(offer, 1, 7, leaves);
    }

    // ---- Helpers ----

    /// @dev The only call of batch 2, whose order has this root of variables: demanded.
    function _withVariables(bytes32 variables) private returns (Place memory place) {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        Order memory order = _orderOf(channel, 0);
        order.variables = variables;
        _call(channel);
        bytes32 task = channels.taskOf(order);
        orders[channel][0] = task;
        leaves[channel][0] = Lines.leafHash(channel, 0, task, Lines.resultOf(results[channel][0]));
        place = _place(_commit(number, _one(_sheet(deal, 0))), 0, 0);
        place.order = order;
        vm.prank(rival);
        channels.demand(offer, number, 0, new Leaf[](0));
    }

    function _play(Place memory place, address who) private returns (uint256 gameId, Position memory position) {
        vm.prank(who);
        gameId = channels.challenge(who, offer, 1, place, 0);
        position = _position(place, who);
    }

    function _refused(Place memory place, bytes4 selector) private {
        vm.expectPartialRevert(selector);
        vm.prank(rival);
        channels.challenge(rival, offer, 1, place, 0);
    }
}
