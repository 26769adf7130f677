// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, Breach, CallReceipt, Deal, Entry, LineProof, Place, Sheet} from "../../src/interfaces/Deals.sol";
import {IChannels} from "../../src/interfaces/IChannels.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Order} from "../../src/interfaces/Tasks.sol";
import {Lines} from "../../src/libraries/Lines.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title What convicts without a game
contract EvidenceTest is ChannelFixture {
    // ---- Two words for one call ----

    function test_TwoReceiptsOfOneCallConvictForItsClient() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        (CallReceipt memory a, CallReceipt memory b) = (_receipt(channel, 0, number), _receipt(channel, 0, number));
        b.outputsRoot = WRONG;
        uint256 funds = _funds(client);
        _contradict(deal, a, b);
        _assertBatch(channels.batchOf(pool, number), BatchState.Convicted);
        assertEq(_funds(client), funds + _reward());
        assertEq(uint8(channels.judgmentAt(channels.batchOf(pool, number)).breach), uint8(Breach.Contradiction));
        // Before its commit: the pool is over, and channels end at once.
        assertTrue(channels.poolAt(pool).over);
        channels.end(offer, deal);
        assertEq(_funds(client), funds + _reward() + 1 ether);
        vm.expectRevert(abi.encodeWithSelector(IChannels.PoolOver.selector, pool));
        vm.prank(signer);
        channels.begin(offer);
        channels.slash(offer, number);
    }

    function test_OneReceiptTwiceIsNoContradiction() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 2);
        _begin();
        CallReceipt memory a = _receipt(channel, 0, number);
        _notContradicted(deal, a, _receipt(channel, 0, 2), IChannels.NoContradiction.selector);
        _notContradicted(deal, a, _receipt(channel, 1, number), IChannels.NoContradiction.selector);
        CallReceipt memory b = _receipt(channel, 0, number);
        b.outputsRoot = WRONG;
        bytes memory others = _sign(payerKey, channels.hashOf(b));
        bytes memory signature = _sign(a);
        vm.expectPartialRevert(IChannels.WrongSigner.selector);
        channels.contradict(offer, deal, a, signature, b, others);
        vm.expectPartialRevert(IChannels.WrongSigner.selector);
        channels.contradict(offer, deal, b, others, a, signature);
    }

    /// @dev A key that signs for two pools: a receipt convicts no batch of the other one.
    function test_AReceiptConvictsInThePoolOfItsChannelAlone() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        (CallReceipt memory a, CallReceipt memory b) = (_receipt(channel, 0, number), _receipt(channel, 0, number));
        b.outputsRoot = WRONG;
        offer.nonce = 1;
        pool = _register(offer);
        _begin();
        _notContradicted(deal, a, b, IChannels.WrongPool.selector);
        Deal memory other = _deal();
        _notContradicted(other, a, b, IMarket.WrongTask.selector);
    }

    /// @dev A leaf of the tail that the client was told otherwise.
    function test_ACommittedLeafThatContradictsItsReceiptConvicts() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 5);
        CallReceipt memory receipt = _receipt(channel, 4, number);
        _replace(channel, 4, WRONG);
        bytes32 batch = _commit(number, _one(_sheet(deal, 1)));
        _contradictLeaf(deal, receipt, leaves[channel][4], _path(leaves[channel], 4), 0);
        _assertBatch(batch, BatchState.Convicted);
        assertFalse(channels.poolAt(pool).over);
    }

    /// @dev A node above the leaves is another hash than the receipt's leaf, and contradicts nothing.
    function test_ANodeIsNoLeaf() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 5);
        _commit(number, _one(_sheet(deal, 0)));
        CallReceipt memory receipt = _receipt(channel, 4, number);
        bytes32[] memory path = _path(leaves[channel], 4);
        bytes32[] memory above = new bytes32[](2);
        (above[0], above[1]) = (path[1], path[2]);
        bytes32 node = Merkle.node(leaves[channel][4], 0);
        _contradictLeaf(deal, receipt, node, above, IChannels.WrongCall.selector);
        _contradictLeaf(deal, receipt, leaves[channel][4], path, IChannels.NoContradiction.selector);
        receipt.index = 5; // padding
        _contradictLeaf(deal, receipt, 0, path, IChannels.WrongCall.selector);
    }

    // ---- Left out ----

    /// @dev INVARIANT 48
    function test_ACallThatIsLeftOutConvicts() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 2);
        CallReceipt memory receipt = _receipt(channel, 1, number);
        bytes memory signature = _sign(receipt);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        channels.accuse(offer, deal, receipt, signature);
        _replaceLength(channel, 1);
        bytes32 batch = _commit(number, _one(_sheet(deal, 0)));
        CallReceipt memory first = _receipt(channel, 0, number);
        bytes memory firstSignature = _sign(first);
        vm.expectRevert(abi.encodeWithSelector(IChannels.NoOmission.selector, channel, 0, 1));
        channels.accuse(offer, deal, first, firstSignature);
        uint256 funds = _funds(client);
        channels.accuse(offer, deal, receipt, signature);
        _assertBatch(batch, BatchState.Convicted);
        assertEq(_funds(client), funds + _reward());
    }

    function test_AChannelThatIsLeftOutConvicts() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        CallReceipt memory receipt = _receipt(channel, 0, number);
        bytes memory signature = _sign(receipt);
        bytes32 batch = _commit(number, new Sheet[](0));
        channels.accuse(offer, deal, receipt, signature);
        _assertBatch(batch, BatchState.Convicted);
    }

    function test_ABatchThatLapsedIsAccusedForAWhile() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        CallReceipt memory receipt = _receipt(channel, 0, number);
        bytes memory signature = _sign(receipt);
        (uint256 commitBy,,,,) = channels.windowsOf(offer, number);
        uint256 state = vm.snapshotState();
        vm.roll(commitBy + p.challenge + 1);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        channels.accuse(offer, deal, receipt, signature);
        vm.revertToState(state);
        vm.roll(commitBy + p.challenge);
        channels.accuse(offer, deal, receipt, signature);
        assertTrue(channels.poolAt(pool).over);
    }

    /// @dev One fault costs one batch: the one beside it cannot be committed any more, and nobody pays for it.
    function test_ABatchOfAPoolThatIsOverIsNotAccused() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 2);
        _begin();
        (CallReceipt memory a, CallReceipt memory b) = (_receipt(channel, 0, number), _receipt(channel, 0, number));
        b.outputsRoot = WRONG;
        _contradict(deal, a, b);
        CallReceipt memory receipt = _receipt(channel, 1, 2);
        bytes memory signature = _sign(receipt);
        vm.roll(block.number + offer.epoch + 1);
        vm.expectRevert(abi.encodeWithSelector(IChannels.PoolOver.selector, pool));
        channels.accuse(offer, deal, receipt, signature);
        vm.roll(block.number + p.challenge);
        uint256 held = _heldOf(operator);
        _closeBatch(2);
        assertEq(_heldOf(operator), held - _collateral());
    }

    function test_ALaterBatchHealsWhatWasLeftOut() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        CallReceipt memory receipt = _receipt(channel, 0, number);
        bytes memory signature = _sign(receipt);
        _commit(number, new Sheet[](0));
        _begin();
        _commit(2, _one(_sheet(deal, 0)));
        vm.expectPartialRevert(IChannels.NoOmission.selector);
        channels.accuse(offer, deal, receipt, signature);
    }

    // ---- Outside of the offer ----

    function test_AnOrderOutsideOfTheOfferConvicts() public {
        bytes32 program = keccak256("not offered");
        (Entry[] memory entries, uint32 count) = _entries();
        (Place memory place, bytes32 batch) = _served(program, 1);
        vm.expectRevert(abi.encodeWithSelector(IChannels.NotOutside.selector, program));
        channels.outside(offer, 1, place, new Entry[](0), count);
        uint256 funds = _funds(anybody);
        vm.prank(anybody);
        channels.outside(offer, 1, place, _around(program, entries), count);
        _assertBatch(batch, BatchState.Convicted);
        assertEq(uint8(channels.judgmentAt(batch).breach), uint8(Breach.Outside));
        assertEq(_funds(anybody), funds + _reward());
    }

    function test_AProgramRepeatedTooOftenConvicts() public {
        (Entry[] memory entries, uint32 count) = _entries();
        bytes32 program = entries[1].program;
        (Place memory place, bytes32 batch) = _served(program, 3);
        Entry[] memory one = new Entry[](1);
        one[0] = entries[1];
        channels.outside(offer, 1, place, one, count);
        _assertBatch(batch, BatchState.Convicted);
    }

    function test_WhatTheOfferAllowsIsNotOutside() public {
        (Entry[] memory entries, uint32 count) = _entries();
        (Place memory place,) = _served(entries[1].program, 2);
        Entry[] memory one = new Entry[](1);
        one[0] = entries[1];
        _notOutside(place, one, count);
        Entry[] memory two = new Entry[](2);
        (two[0], two[1]) = (entries[0], entries[2]); // no neighbours
        _notOutside(place, two, count);
        (two[0], two[1]) = (entries[0], entries[1]);
        _notOutside(place, two, count);
        one[0] = entries[0];
        _notOutside(place, one, count);
        one[0].repeat = 1; // no entry of the offer
        _notOutside(place, one, count);
        one[0] = entries[2];
        _notOutside(place, one, count);
        _notOutside(place, one, count + 1);
    }

    /// @dev INVARIANT 52: an order that names another place.
    function test_AnOrderThatDoesNotNameItsPlaceConvicts() public {
        (Entry[] memory entries, uint32 count) = _entries();
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        Order memory order = _orderOf(channel, 1);
        (order.program, order.repeat) = (entries[1].program, 1);
        _callWith(channel, order); // at index 0
        bytes32 batch = _commit(number, _one(_sheet(deal, 0)));
        Place memory place = _place(batch, 0, 0);
        place.order = order;
        channels.outside(offer, number, place, new Entry[](0), count);
        _assertBatch(batch, BatchState.Convicted);
    }

    // ---- Helpers ----

    /// @dev Three programs, each twice at most, under the offer of another pool.
    function _entries() private returns (Entry[] memory entries, uint32 count) {
        (entries, count) = (new Entry[](3), 3);
        bytes32[] memory hashes = new bytes32[](3);
        for (uint32 i; i < 3; ++i) {
            entries[i] = Entry(i, bytes32(uint256(i + 1) << 253), 2, new bytes32[](0));
            hashes[i] = Lines.entryHash(entries[i].program, 2);
        }
        for (uint256 i; i < 3; ++i) {
            entries[i].path = _path(hashes, i);
        }
        offer.programs = Lines.programsRootOf(3, Merkle.treeRoot(hashes));
        pool = _register(offer);
    }

    /// @dev The neighbours of a program that is not listed.
    function _around(bytes32 program, Entry[] memory entries) private pure returns (Entry[] memory around) {
        uint256 above;
        while (above < entries.length && entries[above].program < program) ++above;
        bool edge = above == 0 || above == entries.length;
        around = new Entry[](edge ? 1 : 2);
        around[0] = entries[above == 0 ? 0 : above - 1];
        if (!edge) around[1] = entries[above];
    }

    function _served(bytes32 program, uint32 repeat) private returns (Place memory place, bytes32 batch) {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        Order memory order = _orderOf(channel, 0);
        (order.program, order.repeat) = (program, repeat);
        _callWith(channel, order);
        batch = _commit(number, _one(_sheet(deal, 0)));
        place = _place(batch, 0, 0);
        place.order = order;
    }

    function _callWith(bytes32 channel, Order memory order) private {
        _call(channel);
        uint256 index = leaves[channel].length - 1;
        bytes32 task = channels.taskOf(order);
        orders[channel][index] = task;
        leaves[channel][index] = Lines.leafHash(channel, uint64(index), task, Lines.resultOf(results[channel][index]));
    }

    /// @dev Another result in the place of one that was served.
    function _replace(bytes32 channel, uint64 index, bytes32 outputsRoot) private {
        results[channel][index] = outputsRoot;
        leaves[channel][index] = Lines.leafHash(channel, index, orders[channel][index], Lines.resultOf(outputsRoot));
    }

    function _replaceLength(bytes32 channel, uint256 count) private {
        while (leaves[channel].length > count) {
            leaves[channel].pop();
        }
    }

    function _contradict(Deal memory deal, CallReceipt memory a, CallReceipt memory b) private {
        (bytes memory first, bytes memory second) = (_sign(a), _sign(b));
        vm.prank(anybody);
        channels.contradict(offer, deal, a, first, b, second);
    }

    /// @dev Refused with `selector`, if there is one.
    function _contradictLeaf(
        Deal memory deal,
        CallReceipt memory receipt,
        bytes32 leaf,
        bytes32[] memory path,
        bytes4 selector
    ) private {
        bytes memory signature = _sign(receipt);
        LineProof memory line = _lineProof(channels.batchOf(pool, receipt.number), 0);
        if (selector != 0) vm.expectPartialRevert(selector);
        channels.contradictLeaf(offer, deal, receipt, signature, receipt.number, line, leaf, path);
    }

    function _notContradicted(Deal memory deal, CallReceipt memory a, CallReceipt memory b, bytes4 selector) private {
        (bytes memory first, bytes memory second) = (_sign(a), _sign(b));
        vm.expectPartialRevert(selector);
        channels.contradict(offer, deal, a, first, b, second);
    }

    function _notOutside(Place memory place, Entry[] memory entries, uint32 count) private {
        vm.expectPartialRevert(IChannels.NotOutside.selector);
        channels.outside(offer, 1, place, entries, count);
    }
}
