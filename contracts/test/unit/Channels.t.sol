// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, ChannelState, Deal, Offer, Sheet, Voucher} from "../../src/interfaces/Deals.sol";
import {IChannels} from "../../src/interfaces/IChannels.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Shares} from "../../src/libraries/Shares.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title Pools, and channels from their deposit to its end
contract ChannelsTest is ChannelFixture {
    // ---- Offers ----

    function test_AnOfferIsMadeOnceByItsOperatorOrItsSigner() public {
        vm.expectRevert(abi.encodeWithSelector(IChannels.AlreadyOffered.selector, pool));
        vm.prank(operator);
        channels.offer(offer);
        Offer memory other = _offer();
        other.nonce = 1;
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, anybody, signer));
        vm.prank(anybody);
        channels.offer(other);
        vm.prank(signer);
        channels.offer(other);
        assertTrue(channels.poolAt(channels.poolOf(other)).offered);
    }

    function test_AnOfferOutsideOfTheLimitsIsRefused() public {
        Offer memory o = _offer();
        o.operator = operator;
        o.signer = address(0);
        _refused(o, IMarket.ZeroAddress.selector);
        (o.signer, o.maxPrice) = (receiptSigner, 2 ** 96);
        _refused(o, IChannels.WrongPrice.selector);
        (o.maxPrice, o.checkPrice) = (PRICE, PRICE + 1);
        _refused(o, IChannels.WrongPrice.selector);
        (o.checkPrice, o.riskEach) = (PRICE, 1);
        _refused(o, IChannels.WrongRisk.selector);
        (o.riskEach, o.riskAll) = (0, 2 ** 96);
        _refused(o, IChannels.WrongRisk.selector);
        (o.riskAll, o.most) = (0, PRICE - 1);
        _refused(o, IChannels.WrongMost.selector);
        o.most = 2 ** 96;
        _refused(o, IChannels.WrongMost.selector);
        (o.most, o.checkRate) = (PRICE, p.checkFloor - 1);
        _refused(o, IMarket.WrongCheckRate.selector);
        o.checkRate = 1e18 + 1;
        _refused(o, IMarket.WrongCheckRate.selector);
        (o.checkRate, o.verifiers) = (1e18, 5);
        _refused(o, IMarket.WrongVerifiers.selector);
        o.verifiers = 0;
        _refused(o, IMarket.WrongVerifiers.selector);
        (o.verifiers, o.exec) = (4, p.maxExec + 1);
        _refused(o, IMarket.WrongExec.selector);
        (o.exec, o.epoch) = (1, 0);
        _refused(o, IChannels.WrongEpoch.selector);
        (o.epoch, o.tail) = (1, 9);
        _refused(o, IChannels.WrongTail.selector);
        (o.tail, o.programs) = (8, 0);
        _refused(o, IChannels.NoPrograms.selector);
        o.programs = _programs();
        vm.prank(operator);
        channels.offer(o);
    }

    function _refused(Offer memory o, bytes4 selector) private {
        vm.expectPartialRevert(selector);
        vm.prank(operator);
        channels.offer(o);
    }

    // ---- Begins ----

    function test_ABeginLocksStakeAndCollateral() public {
        _begin();
        bytes32 batch = channels.batchOf(pool, 1);
        _assertBatch(batch, BatchState.Begun);
        assertEq(_heldOf(operator), _collateral());
        uint256 lifetime = Shares.lifetime(p, offer.exec, offer.epoch);
        assertEq(manager.lockOf(batch, operator).end, block.number + lifetime);
        assertEq(manager.lockOf(batch, operator).shares, Shares.stake(p, offer) + 1);
    }

    function test_OnlyTheRegisteredSignerBegins() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, operator, signer));
        vm.prank(operator);
        channels.begin(offer);
        offer.nonce = 7;
        vm.expectRevert(abi.encodeWithSelector(IChannels.UnknownPool.selector, channels.poolOf(offer)));
        vm.prank(signer);
        channels.begin(offer);
    }

    function test_TwoBatchesAreUncommittedAtMost() public {
        _begin();
        _begin();
        vm.expectRevert(abi.encodeWithSelector(IChannels.BatchesUncommitted.selector, pool, 2, 1));
        vm.prank(signer);
        channels.begin(offer);
        // One whose time is over holds up nobody.
        vm.roll(block.number + offer.epoch + 1);
        assertEq(_begin(), 3);
        assertEq(channels.poolAt(pool).next, 3);
    }

    function test_ABatchThatWouldOutliveTheStakeIsNotBegun() public {
        offer.epoch = uint32(1_000 - (Shares.lifetime(p, offer.exec, 0)) + 1);
        pool = _register(offer);
        vm.expectRevert(abi.encodeWithSelector(IMarket.OutlivesStake.selector, 1_001, 1_000));
        vm.prank(signer);
        channels.begin(offer);
    }

    function test_ALapsedBatchGivesEverythingBack() public {
        uint256 funds = _funds(operator);
        _begin();
        uint256 last = block.number + offer.epoch + p.challenge;
        vm.roll(last);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, last, last));
        channels.close(offer, 1);
        vm.roll(last + 1);
        _closeBatch(1);
        _assertBatch(channels.batchOf(pool, 1), BatchState.Lapsed);
        assertEq(_funds(operator), funds);
        assertEq(_heldOf(operator), 0);
        assertEq(manager.lockOf(channels.batchOf(pool, 1), operator).end, 0);
        vm.expectPartialRevert(IChannels.WrongBatchState.selector);
        channels.close(offer, 1);
    }

    // ---- Channels ----

    function test_OpeningTakesDepositAndFee() public {
        _begin();
        Deal memory deal = _deal();
        (uint256 clients, uint256 operators) = (_funds(client), _funds(operator));
        bytes32 channel = _open(deal, 1 ether);
        assertEq(_funds(client), clients - 1 ether - p.gChunk);
        assertEq(_funds(operator), operators + p.gChunk);
        assertEq(channels.channelAt(channel).deposit, 1 ether);
        bytes memory signature = _sign(receiptKey, channel);
        vm.expectRevert(abi.encodeWithSelector(IChannels.AlreadyOpen.selector, channel));
        vm.prank(client);
        channels.open(offer, deal, signature, 0);
    }

    function test_WhatABalanceLacksIsTakenFromTokens() public {
        _begin();
        Deal memory deal = _deal();
        deal.client = anybody;
        token.mint(anybody, 2 ether);
        vm.prank(anybody);
        token.approve(address(channels), 2 ether);
        bytes32 channel = _open(deal, 1 ether);
        vm.prank(anybody);
        channels.fund(channel, 0.5 ether);
        assertEq(channels.channelAt(channel).deposit, 1.5 ether);
        assertEq(token.balanceOf(anybody), 0.5 ether - p.gChunk);
    }

    function test_AChannelIsOpenedByItsClientInTimeOnALiveBatchWithTheSignersWord() public {
        Deal memory deal = _deal();
        bytes memory signature = _sign(receiptKey, channels.channelOf(deal));
        vm.expectRevert(abi.encodeWithSelector(IChannels.NoLiveBatch.selector, pool));
        vm.prank(client);
        channels.open(offer, deal, signature, 1);
        _begin();
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheClient.selector, rival, client));
        vm.prank(rival);
        channels.open(offer, deal, signature, 1);
        bytes memory others = _sign(payerKey, channels.channelOf(deal));
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongSigner.selector, channels.channelOf(deal), receiptSigner));
        vm.prank(client);
        channels.open(offer, deal, others, 1);
        vm.roll(deal.openBy + 1);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        vm.prank(client);
        channels.open(offer, deal, signature, 1);
        (deal.pool, deal.openBy) = (keccak256("another pool"), type(uint64).max);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongPool.selector, pool, deal.pool));
        vm.prank(client);
        channels.open(offer, deal, signature, 1);
    }

    /// @dev INVARIANT 54
    function test_ChannelsOfAPoolPutNoMoreAtRiskThanWasOffered() public {
        (offer.riskEach, offer.riskAll) = (0.02 ether, 0.03 ether);
        pool = _register(offer);
        _begin();
        Deal memory deal = _deal();
        deal.valueAtRisk = 0.02 ether + 1;
        _tooRisky(deal, 0);
        deal.valueAtRisk = 0.02 ether;
        _open(deal, 1);
        Deal memory other = _deal();
        other.valueAtRisk = 0.01 ether + 1;
        _tooRisky(other, 0.02 ether);
        other.valueAtRisk = 0.01 ether;
        _open(other, 1);
        assertEq(channels.poolAt(pool).reserved, 0.03 ether);
        _conclude(deal, 0, 0);
        assertEq(channels.poolAt(pool).reserved, 0.01 ether);
    }

    function _tooRisky(Deal memory deal, uint256 reserved) private {
        bytes memory signature = _sign(receiptKey, channels.channelOf(deal));
        vm.expectRevert(
            abi.encodeWithSelector(IChannels.RiskExceeded.selector, pool, reserved, deal.valueAtRisk, offer.riskAll)
        );
        vm.prank(client);
        channels.open(offer, deal, signature, 1);
    }

    function test_WhoLeavesStandsInTheNewestBatchAndNoLaterOne() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, anybody, signer));
        vm.prank(anybody);
        channels.leave(offer, deal);
        vm.prank(client);
        channels.leave(offer, deal);
        assertEq(channels.channelAt(channel).last, number);
        vm.expectRevert(abi.encodeWithSelector(IChannels.NotOver.selector, channel, number));
        channels.end(offer, deal);
        _call(channel);
        _commit(number, _one(_sheet(deal, 0)));
        uint256 funds = _funds(client);
        channels.end(offer, deal);
        assertEq(_funds(client), funds + 1 ether - PRICE);
        assertEq(uint8(channels.channelAt(channel).state), uint8(ChannelState.Ended));
        vm.expectPartialRevert(IChannels.WrongChannelState.selector);
        channels.end(offer, deal);
    }

    function test_AChannelThatWasLeftStandsInNoLaterBatch() public {
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        vm.prank(signer);
        channels.leave(offer, deal);
        _commit(number, new Sheet[](0));
        _begin();
        _call(channel);
        Sheet[] memory sheets = _one(_sheet(deal, 0));
        vm.expectRevert(abi.encodeWithSelector(IChannels.ChannelLeft.selector, channel, number));
        vm.prank(signer);
        channels.commit(offer, 2, sheets);
    }

    function test_WhereTheLastBatchLapsedTheDepositComesBackAfterIt() public {
        (Deal memory deal,, uint32 number) = _opened();
        vm.prank(client);
        channels.leave(offer, deal);
        (uint256 commitBy,,,,) = channels.windowsOf(offer, number);
        vm.roll(commitBy + p.challenge);
        vm.expectPartialRevert(IChannels.NotOver.selector);
        channels.end(offer, deal);
        vm.roll(commitBy + p.challenge + 1);
        uint256 funds = _funds(client);
        channels.end(offer, deal);
        assertEq(_funds(client), funds + 1 ether);
    }

    function test_BothConcludeAChannelAtOnce() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        (uint256 clients, uint256 operators) = (_funds(client), _funds(operator));
        _conclude(deal, 3, 0.25 ether);
        assertEq(_funds(client), clients + 0.75 ether);
        assertEq(_funds(operator), operators + 0.25 ether);
        assertEq(uint8(channels.channelAt(channel).state), uint8(ChannelState.Concluded));
        vm.expectPartialRevert(IChannels.WrongChannelState.selector);
        channels.fund(channel, 0);
    }

    function test_NobodyConcludesAlone() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        Voucher memory v = Voucher(channel, 1, 0.25 ether, 0, 0);
        bytes memory payers = _sign(payerKey, channels.hashOf(v));
        bytes memory signers = _sign(receiptKey, channels.hashOf(v));
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongSigner.selector, channels.hashOf(v), receiptSigner));
        channels.conclude(offer, deal, v, payers, payers);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongSigner.selector, channels.hashOf(v), payer));
        channels.conclude(offer, deal, v, signers, signers);
        v.amount = 1 ether + 1;
        payers = _sign(payerKey, channels.hashOf(v));
        signers = _sign(receiptKey, channels.hashOf(v));
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongAmount.selector, channel, 1 ether + 1, 0, 1 ether));
        channels.conclude(offer, deal, v, payers, signers);
        v.channel = keccak256("another channel");
        payers = _sign(payerKey, channels.hashOf(v));
        signers = _sign(receiptKey, channels.hashOf(v));
        vm.expectRevert(abi.encodeWithSelector(IMarket.WrongTask.selector, channel, v.channel));
        channels.conclude(offer, deal, v, payers, signers);
    }

    function _conclude(Deal memory deal, uint64 count, uint256 amount) private {
        Voucher memory v = Voucher(channels.channelOf(deal), count, amount, 0, 0);
        bytes memory payers = _sign(payerKey, channels.hashOf(v));
        bytes memory signers = _sign(receiptKey, channels.hashOf(v));
        vm.prank(anybody);
        channels.conclude(offer, deal, v, payers, signers);
    }
}
