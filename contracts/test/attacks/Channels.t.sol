// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, CallReceipt, Deal, Entry, Place, Sheet, Voucher} from "../../src/interfaces/Deals.sol";
import {IChannels} from "../../src/interfaces/IChannels.sol";
import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {Leaf, Order} from "../../src/interfaces/Tasks.sol";
import {Lines} from "../../src/libraries/Lines.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title Known attacks on paid calls, played against the deployed contracts
/// @notice Numbers as in the README's list of attacks; each test says what the attacker is left with.
contract ChannelAttacksTest is ChannelFixture {
    /// @dev An older voucher is committed: what it leaves out had receipts, and each convicts.
    function test_Attack40_TheOperatorCommitsAnOlderVoucher() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 3);
        Sheet memory old = _sheet(deal, 0);
        _calls(channel, 2);
        CallReceipt memory receipt = _receipt(channel, 4, number);
        bytes memory signature = _sign(receipt);
        vm.prank(signer);
        channels.commit(offer, number, _one(old));
        channels.accuse(offer, deal, receipt, signature);
        _assertBatch(channels.batchOf(pool, number), BatchState.Convicted);
    }

    /// @dev A voucher of one channel pays nothing in another one, nor in other channels' contract.
    function test_Attack41_AVoucherIsReplayed() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 3);
        Sheet memory sheet = _sheet(deal, 0);
        Deal memory other = _deal();
        _open(other, 1 ether);
        sheet.deal = other;
        _refused(sheet, IChannels.WrongSigner.selector);
        sheet = _sheet(deal, 0);
        bytes32 digest = keccak256(
            abi.encodePacked(
                hex"1901",
                _domainOf(address(market)),
                keccak256(
                    abi.encode(
                        keccak256("Voucher(bytes32 channel,uint64 count,uint256 amount,uint64 acked,bytes32 root)"),
                        Voucher(channel, sheet.count, sheet.amount, sheet.acked, sheet.root)
                    )
                )
            )
        );
        sheet.signature = _sign(payerKey, digest);
        _refused(sheet, IChannels.WrongSigner.selector);
    }

    function _domainOf(address at) private view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("EigenTensor"),
                keccak256("1"),
                block.chainid,
                at
            )
        );
    }

    /// @dev The operator's own calls of price nothing, and of the most work there is, fill the shares: none of them is a
    /// program of the offer, and the first one that is seen convicts.
    function test_Attack42_OwnCallsExhaustTheVerifiers() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        Order memory order = _orderOf(channel, 0);
        (order.repeat, order.inputs) = (1_000_000, 0);
        _call(channel);
        bytes32 task = channels.taskOf(order);
        orders[channel][0] = task;
        leaves[channel][0] = Lines.leafHash(channel, 0, task, Lines.resultOf(results[channel][0]));
        _commit(number, _one(_sheet(deal, 0)));
        Place memory place = _place(channels.batchOf(pool, number), 0, 0);
        place.order = order;
        Entry[] memory entries = new Entry[](1);
        entries[0] = Entry(0, Merkle.programRootOf(HEADER, RECORDS), 2, new bytes32[](0));
        channels.outside(offer, number, place, entries, 1);
        _assertBatch(channels.batchOf(pool, number), BatchState.Convicted);
    }

    /// @dev One client's sheet is left out of a batch while the pool goes on: its receipts name the batch that owes them.
    function test_Attack43_OneChannelIsLeftOutWhileThePoolGoesOn() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        CallReceipt memory receipt = _receipt(channel, 0, number);
        bytes memory signature = _sign(receipt);
        Deal memory other = _deal();
        _call(_open(other, 1 ether));
        bytes32 batch = _commit(number, _one(_sheet(other, 0)));
        _begin();
        _call(channels.channelOf(other));
        _commit(2, _one(_sheet(other, 0)));
        channels.accuse(offer, deal, receipt, signature);
        _assertBatch(batch, BatchState.Convicted);
        _assertBatch(channels.batchOf(pool, 2), BatchState.Committed);
        assertFalse(channels.poolAt(pool).over, "the others go on");
    }

    /// @dev A client that leaves just before a commit stands in it all the same; one that leaves before a begin stands not
    /// in that batch, and its operator sees it.
    function test_Attack44_LeavingHurriesNobody() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        Sheet memory sheet = _sheet(deal, 0);
        (uint256 commitBy,,,,) = channels.windowsOf(offer, number);
        vm.prank(client);
        channels.leave(offer, deal);
        (uint256 after_,,,,) = channels.windowsOf(offer, number);
        assertEq(after_, commitBy);
        _commit(number, _one(sheet));
    }

    /// @dev A client that concluded its channel has what it agreed to: no receipt of it convicts for an omission.
    function test_Attack45_AClientThatConcludedAccuses() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 2);
        CallReceipt memory receipt = _receipt(channel, 1, number);
        bytes memory signature = _sign(receipt);
        Voucher memory v = Voucher(channel, 2, 2 * PRICE, 2, _rootOf(channel, 2));
        bytes32 digest = channels.hashOf(v);
        channels.conclude(offer, deal, v, _sign(payerKey, digest), _sign(receiptKey, digest));
        _commit(number, new Sheet[](0));
        vm.expectPartialRevert(IChannels.WrongChannelState.selector);
        channels.accuse(offer, deal, receipt, signature);
    }

    /// @dev Of a batch that is convicted afterwards, the operator has what a concluded channel had paid.
    function test_Attack45_AConcludedChannelIsNotPaidBack() public {
        (Deal memory deal, bytes32 channel, bytes32 batch) = _committed(4);
        Voucher memory v = Voucher(channel, 4, 4 * PRICE, 4, _rootOf(channel, 4));
        bytes32 digest = channels.hashOf(v);
        channels.conclude(offer, deal, v, _sign(payerKey, digest), _sign(receiptKey, digest));
        _convictByClock(batch);
        (uint256 clients, uint256 operators) = (_funds(client), _funds(operator));
        channels.refund(offer, 1, _proofs(batch, 0));
        assertEq(_funds(client), clients);
        assertEq(_funds(operator), operators + 4 * PRICE);
    }

    /// @dev Evidence that somebody copies and sends first pays the client that it is about.
    function test_Attack46_EvidenceIsFrontRun() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _call(channel);
        (CallReceipt memory a, CallReceipt memory b) = (_receipt(channel, 0, number), _receipt(channel, 0, number));
        b.outputsRoot = WRONG;
        (bytes memory first, bytes memory second) = (_sign(a), _sign(b));
        (uint256 thief, uint256 owner) = (_funds(anybody), _funds(client));
        vm.prank(anybody);
        channels.contradict(offer, deal, a, first, b, second);
        assertEq(_funds(anybody), thief);
        assertEq(_funds(client), owner + _reward());
    }

    /// @dev A challenge without hope in the last block delays a batch by both clocks, and costs its bond.
    function test_Attack47_AHopelessChallengeInTheLastBlock() public {
        (,, bytes32 batch) = _committed(4);
        _seedBatch(batch);
        _passDisputes(1);
        vm.roll(block.number - 1);
        Place memory place = _place(batch, 0, 2);
        uint256 begun = block.number;
        vm.prank(rival);
        uint256 gameId = channels.challenge(rival, offer, 1, place, 0);
        Position memory position = _position(place, rival);
        vm.roll(block.number + position.executorLeft - 1);
        bytes32[] memory trace = new bytes32[](2);
        (trace[0], trace[1]) = (keccak256("tensor root"), _resultOf(2));
        vm.prank(signer);
        channelsGame.publish(gameId, position.pack(), place.order, HEADER, RECORDS, trace, new bytes32[](0));
        position = _publishedBy(position, place.order, trace);
        vm.roll(position.since + position.challengerLeft);
        channelsGame.timeout(gameId, position.pack());
        assertLe(block.number, begun + 2 * (offer.exec + p.clock));
        uint256 operators = _funds(operator);
        _closeBatch(1);
        // Nobody checked: what the operator put in for it is burned.
        assertGe(_funds(operator), operators + _collateral() - p.gChk + _reward());
        assertEq(_heldOf(rival), 0);
    }

    /// @dev Slashing is paused: money moves all the same, and the slash waits.
    function test_Attack48_TheCoreIsPausedWhenABatchIsConvicted() public {
        (,, bytes32 batch) = _committed(4);
        core.allocationManager.pause(2);
        uint256 clients = _funds(client);
        _convictByClock(batch);
        channels.refund(offer, 1, _proofs(batch, 0));
        assertEq(_funds(client), clients + 4 * PRICE);
        vm.expectRevert();
        channels.slash(offer, 1);
        core.allocationManager.unpause(0);
        channels.slash(offer, 1);
        assertTrue(channels.judgmentAt(batch).slashed);
    }

    /// @dev The same order at two places: only one of them it can name, and the other one convicts.
    function test_Attack49_AnOrderIsServedTwice() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, 2);
        orders[channel][1] = orders[channel][0];
        leaves[channel][1] = Lines.leafHash(channel, 1, orders[channel][0], Lines.resultOf(results[channel][1]));
        _commit(number, _one(_sheet(deal, 0)));
        Place memory place = _place(channels.batchOf(pool, number), 0, 1);
        place.order = _orderOf(channel, 0);
        vm.expectPartialRevert(IChannels.WrongPlace.selector);
        vm.prank(rival);
        channels.challenge(rival, offer, number, place, 0);
        channels.outside(offer, number, place, new Entry[](0), 1);
        _assertBatch(channels.batchOf(pool, number), BatchState.Convicted);
    }

    /// @dev Operator and client withhold a call's data from a drawn verifier: it demands the call, or has W.
    function test_Attack50_NobodyServesAVerifier() public {
        (,, bytes32 batch) = _committed(4);
        vm.prank(verifier);
        channels.demand(offer, 1, 2, new Leaf[](1));
        vm.roll(block.number + offer.exec + p.clock + 1);
        uint256 funds = _funds(verifier);
        channels.denounce(offer, 1, 2, new Leaf[](1));
        _assertBatch(batch, BatchState.Convicted);
        assertEq(_funds(verifier), funds + _reward() + 2 * p.gChunk);
    }

    function _convictByClock(bytes32 batch) private {
        Place memory place = _place(batch, 0, 1);
        vm.prank(rival);
        uint256 gameId = channels.challenge(rival, offer, 1, place, 0);
        Position memory position = _position(place, rival);
        vm.roll(block.number + position.executorLeft);
        channelsGame.timeout(gameId, position.pack());
    }

    function _refused(Sheet memory sheet, bytes4 selector) private {
        vm.expectPartialRevert(selector);
        vm.prank(signer);
        channels.commit(offer, 1, _one(sheet));
    }
}
