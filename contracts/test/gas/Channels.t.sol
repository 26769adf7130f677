// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, CallReceipt, Deal, Place, Sheet} from "../../src/interfaces/Deals.sol";
import {Leaf, LeafProof} from "../../src/interfaces/Tasks.sol";
import {Lines} from "../../src/libraries/Lines.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title Gas of paid calls, as whole transactions; everybody's messages
/// @notice Every test run compares with `snapshots/`; `FORGE_SNAPSHOT_CHECK=false forge test` writes it anew.
/// @dev Of the second batch of a pool: the slots of its parties are there already.
/// forge-config: default.isolate = true
contract ChannelsGasTest is ChannelFixture {
    string private _name;
    uint256 private _total;
    Deal[] private _deals;

    function test_1000CallsOfOneChannel() public {
        _measure("calls-one", 1, 1_000, 0.05e18, 1);
    }

    function test_10000CallsOfOneChannel() public {
        _measure("calls-four", 1, 10_000, 0.05e18, 4);
    }

    function test_10000CallsOfOneChannelManyChecked() public {
        _measure("calls-ten", 1, 10_000, 0.1e18, 4);
    }

    function test_10000CallsOf256Channels() public {
        _measure("calls-many", 256, 10_240, 0.05e18, 4);
    }

    /// @dev What bounds a batch: a line, one with the longest tail, and the proof of a part of a share.
    function test_WhatBoundsABatch() public {
        offer.checkRate = 1e18;
        pool = _register(offer);
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 64);
        Deal memory other = _deal();
        bytes32 second = _open(other, 1 ether);
        _calls(second, 40);
        Sheet[] memory sheets = new Sheet[](1);
        uint256 state = vm.snapshotState();
        sheets[0] = _sheet(deal, 0);
        _commit(1, sheets);
        uint256 one = vm.lastCallGas().gasTotalUsed;
        vm.revertToState(state);
        sheets = new Sheet[](2);
        (sheets[0], sheets[1]) = (_sheet(deal, 0), _sheet(other, 0));
        _commit(1, sheets);
        uint256 line = vm.lastCallGas().gasTotalUsed - one;
        vm.snapshotValue("calls", "a line", line);
        vm.revertToState(state);
        sheets[1] = _sheet(other, 8);
        bytes32 batch = _commit(1, sheets);
        vm.snapshotValue("calls", "a tail of 8, on top of its line", vm.lastCallGas().gasTotalUsed - one - line);

        bytes32 mix = _seedBatch(batch);
        bytes32[] memory roots = _shareRoots(batch, mix);
        uint256 index = _answerBatch(batch, 1, mix, rival, 0, WRONG);
        _revealRoots(1, roots);
        _openAnswer(batch, 1, roots, index, WRONG);
        channels.justify(offer, 1, roots, _part(batch, mix, 0, 0));
        vm.snapshotGasLastCall("calls", "justify of 64 calls");
    }

    function test_SeldomMessages() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        vm.snapshotGasLastCall("calls", "open");
        vm.prank(client);
        channels.fund(channel, 1 ether);
        vm.snapshotGasLastCall("calls", "fund");
        _calls(channel, 1_000);
        bytes32 batch = _commit(1, _one(_sheet(deal, 0)));
        Place memory place = _place(batch, 0, 700);
        vm.prank(rival);
        channels.challenge(rival, offer, 1, place, 0);
        vm.snapshotGasLastCall("calls", "challenge");
        vm.prank(rival);
        channels.demand(offer, 1, 700, new Leaf[](0));
        vm.snapshotGasLastCall("calls", "demand");
        channels.show(offer, 1, place, "", new Leaf[](0), new LeafProof[](0));
        vm.snapshotGasLastCall("calls", "show");
        CallReceipt memory a = _receipt(channel, 0, 1);
        CallReceipt memory b = _receipt(channel, 0, 1);
        b.outputsRoot = WRONG;
        (bytes memory first, bytes memory second) = (_sign(a), _sign(b));
        channels.contradict(offer, deal, a, first, b, second);
        vm.snapshotGasLastCall("calls", "contradict");
        channels.slash(offer, 1);
        vm.snapshotGasLastCall("calls", "slash");
        channels.refund(offer, 1, _proofs(batch, 0));
        vm.snapshotGasLastCall("calls", "refund of a line");
        vm.prank(client);
        channels.leave(offer, deal);
        vm.snapshotGasLastCall("calls", "leave");
        channels.end(offer, deal);
        vm.snapshotGasLastCall("calls", "end");
    }

    function _measure(string memory name, uint256 count, uint256 calls, uint64 rate, uint8 verifiers) private {
        _name = name;
        (receiptSigner, receiptKey) = makeAddrAndKey("signer"); // one key for messages and receipts
        (offer.signer, offer.checkRate, offer.verifiers) = (signer, rate, verifiers);
        pool = _register(offer);
        _prepayChannels(client, count * 2 ether);
        _joinVerifier("third");
        _joinVerifier("fourth");
        _begin();
        for (uint256 i; i < count; ++i) {
            _deals.push(_deal());
            _open(_deals[i], 2 ether);
        }
        _serve(1);
        _commitAndBegin(1);
        _serve(calls / count);
        _commitAndBegin(2);
        _snap("commit, begin of the next");
        _check(channels.batchOf(pool, 2));
        vm.snapshotValue(_name, "all", _total);
        vm.snapshotValue(_name, "per call", _total / calls);
    }

    function _serve(uint256 calls) private {
        for (uint256 i; i < _deals.length; ++i) {
            bytes32 channel = channels.channelOf(_deals[i]);
            for (uint256 n; n < calls; n += 500) {
                this.serve(channel, calls - n < 500 ? calls - n : 500);
            }
        }
    }

    /// @dev In a call of its own, whose memory is free afterwards. Nobody opens these leaves.
    function serve(bytes32 channel, uint256 calls) external {
        for (uint256 i; i < calls; ++i) {
            bytes32 result = keccak256(abi.encode(channel, leaves[channel].length));
            results[channel].push(result);
            leaves[channel].push(Lines.leafHash(channel, 0, result, result));
        }
    }

    function _joinVerifier(string memory name) private {
        address who = makeAddr(name);
        _join(who, makeAddr(string.concat(name, " signer")), 10 ether);
        _prepayChannels(who, 1 ether);
        _enlist(who, 1);
        vm.roll(block.number + 1);
    }

    function _commitAndBegin(uint32 number) private {
        Sheet[] memory sheets = new Sheet[](_deals.length);
        for (uint256 i; i < sheets.length; ++i) {
            sheets[i] = _sheet(_deals[i], 0);
        }
        _remember(channels.batchOf(pool, number), sheets);
        bytes[] memory messages = new bytes[](2);
        messages[0] = abi.encodeCall(channels.commit, (offer, number, sheets));
        messages[1] = abi.encodeCall(channels.begin, (offer));
        vm.prank(signer);
        channels.multicall(messages);
    }

    function _check(bytes32 batch) private {
        bytes32 mix = _seedBatch(batch);
        _snap("seed");
        bytes32[] memory roots = _shareRoots(batch, mix);
        uint256[] memory indices = new uint256[](roots.length);
        address[4] memory all = [rival, verifier, makeAddr("third"), makeAddr("fourth")];
        for (uint256 g; g < roots.length; ++g) {
            indices[g] = _answerBatch(batch, 2, mix, all[g], g, roots[g]);
            _snap("answer");
        }
        _revealRoots(2, roots);
        _snap("revealRoots");
        for (uint256 g; g < roots.length; ++g) {
            _openAnswer(batch, 2, roots, indices[g], roots[g]);
            _snap("reveal");
        }
        _passDisputes(2);
        bytes[] memory messages = new bytes[](2);
        messages[0] = abi.encodeCall(channels.close, (offer, 2));
        messages[1] = abi.encodeCall(channels.settle, (offer, 2, indices));
        vm.prank(signer);
        channels.multicall(messages);
        _snap("close, settle of all");
        _assertBatch(batch, BatchState.Final);
    }

    function _snap(string memory what) private {
        _total += vm.snapshotGasLastCall(_name, what);
    }
}
