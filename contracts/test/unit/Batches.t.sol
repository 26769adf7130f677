// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, Deal} from "../../src/interfaces/Deals.sol";
import {Shares} from "../../src/libraries/Shares.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title The life of a batch, from its begin to the last wei
contract BatchesTest is ChannelFixture {
    function test_AnUncheckedBatchPaysItsOperatorAndGivesBackWhatChecksWouldHaveCost() public {
        uint256 funds = _funds(operator);
        (Deal memory deal, bytes32 channel, bytes32 batch) = _committed(10);
        _assertBatch(batch, BatchState.Committed);
        assertEq(_heldOf(operator), _collateral());
        assertEq(channels.channelAt(channel).deposit, 1 ether - 10 * PRICE);
        _seedBatch(batch);
        _passDisputes(1);
        _closeBatch(1);
        _assertBatch(batch, BatchState.Final);

        uint256 returned = offer.checkPrice * 2; // a fifth of ten calls
        assertEq(channels.paybackAt(batch).returned, returned);
        assertEq(_heldOf(operator), 0);
        assertEq(_funds(operator), funds + p.gChunk + 10 * PRICE - returned - p.gChk);
        uint256 clients = _funds(client);
        _refund(1, batch, 0);
        assertEq(_funds(client), clients + returned);

        vm.prank(client);
        channels.leave(offer, deal);
        vm.prank(anybody);
        channels.end(offer, deal);
        assertEq(_funds(client), clients + returned + 1 ether - 10 * PRICE);
        assertEq(token.balanceOf(address(channels)), _all());
    }

    function test_AnAgreeingVerifierIsPaid() public {
        (,, bytes32 batch) = _committed(10);
        bytes32 mix = _seedBatch(batch);
        bytes32[] memory roots = _shareRoots(batch, mix);
        uint256 funds = _funds(rival);
        uint256 index = _answerBatch(batch, 1, mix, rival, 0, roots[0]);
        assertEq(_heldOf(rival), _bond());
        _revealRoots(1, roots);
        _openAnswer(batch, 1, roots, index, roots[0]);
        _passDisputes(1);
        _closeBatch(1);
        assertEq(channels.paybackAt(batch).returned, 0);
        _settle(1, index);
        assertEq(_funds(rival), funds + Shares.fee(p, offer.checkPrice, 2, 1));
        assertEq(token.balanceOf(address(channels)), _all() + channels.channelAt(_channel()).deposit);
    }

    function _refund(uint32 number, bytes32 batch, uint32 position) private {
        vm.prank(anybody);
        channels.refund(offer, number, _proofs(batch, position));
    }

    function _channel() private view returns (bytes32) {
        return lines[channels.batchOf(pool, 1)][0].channel;
    }

    /// @dev What all accounts have.
    function _all() private view returns (uint256 sum) {
        address[6] memory all = [operator, rival, verifier, client, anybody, channels.BURN()];
        for (uint256 i; i < all.length; ++i) {
            sum += _funds(all[i]) + _heldOf(all[i]);
        }
    }
}
