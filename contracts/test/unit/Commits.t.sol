// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {BatchState, Deal, Line, Sheet} from "../../src/interfaces/Deals.sol";
import {IChannels} from "../../src/interfaces/IChannels.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Lines} from "../../src/libraries/Lines.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title What a commit may bring
contract CommitsTest is ChannelFixture {
    /// @dev INVARIANT 53: of three channels, in two batches, the contract says which calls are whose.
    function test_LinesSayWhichCallsABatchHas() public {
        _begin();
        Deal[3] memory deals = [_deal(), _deal(), _deal()];
        Sheet[] memory sheets = new Sheet[](3);
        for (uint256 i; i < 3; ++i) {
            _calls(_open(deals[i], 1 ether), i + 1);
            sheets[i] = _sheet(deals[i], 0);
        }
        bytes32 batch = _commit(1, sheets);
        assertEq(channels.batchAt(batch).leaves, 6);
        assertEq(channels.batchAt(batch).amount, 6 * PRICE);
        assertEq(channels.rootsAt(batch).lines, _linesRoot(batch));
        _begin();
        for (uint256 i; i < 3; ++i) {
            _calls(channels.channelOf(deals[i]), 2);
            sheets[i] = _sheet(deals[i], 2);
        }
        batch = _commit(2, sheets);
        assertEq(channels.batchAt(batch).leaves, 6);
        assertEq(channels.rootsAt(batch).lines, _linesRoot(batch));
        assertEq(channels.channelAt(channels.channelOf(deals[2])).count, 5);
    }

    function _linesRoot(bytes32 batch) private view returns (bytes32) {
        bytes32[] memory hashes = new bytes32[](lines[batch].length);
        for (uint256 i; i < hashes.length; ++i) {
            hashes[i] = Lines.lineHash(lines[batch][i]);
        }
        return Merkle.treeRoot(hashes);
    }

    /// @dev INVARIANT 47: whatever was acknowledged, a tail of up to `tail` calls is appended to it.
    function testFuzz_ATailIsAppendedToWhatWasAcknowledged(uint256 count, uint256 tail) public {
        (count, tail) = (bound(count, 1, 40), bound(tail, 0, 8));
        if (tail > count) tail = count;
        (Deal memory deal, bytes32 channel, uint32 number) = _opened();
        _calls(channel, count);
        bytes32 batch = _commit(number, _one(_sheet(deal, tail)));
        assertEq(channels.rootsAt(batch).lines, _linesRoot(batch), "the tree of all calls");
    }

    function test_WhoseVoucherItIsNotIsRefused() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 3);
        Sheet memory sheet = _sheet(deal, 0);
        sheet.amount += 1;
        _refused(sheet, IChannels.WrongSigner.selector);
        sheet = _sheet(deal, 0);
        sheet.root = keccak256("another root");
        _refused(sheet, IChannels.WrongSigner.selector);
        sheet = _sheet(deal, 0);
        sheet.deal.nonce = 99;
        _refused(sheet, IChannels.WrongChannelState.selector);
        sheet = _sheet(deal, 0);
        sheet.deal.pool = keccak256("another pool");
        _refused(sheet, IChannels.WrongPool.selector);
    }

    function test_CountsGrowAndTailsAreShort() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 12);
        Sheet memory sheet = _sheet(deal, 9);
        _refused(sheet, IChannels.WrongCount.selector);
        sheet = _sheet(deal, 3);
        sheet.acked += 1;
        _signSheet(sheet);
        _refused(sheet, IChannels.WrongCount.selector);
        sheet = _sheet(deal, 3);
        sheet.frontier = new bytes32[](3);
        _refused(sheet, IChannels.WrongFrontier.selector);
        sheet = _sheet(deal, 3);
        sheet.frontier[0] = keccak256("invented");
        _refused(sheet, IChannels.WrongFrontier.selector);
        sheet = _sheet(deal, 0);
        _commit(1, _one(sheet));
        _begin();
        vm.expectPartialRevert(IChannels.WrongCount.selector);
        vm.prank(signer);
        channels.commit(offer, 2, _one(sheet));
    }

    function test_AmountsAreBoundedPerCallPerBatchAndByTheDeposit() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 2);
        Sheet memory sheet = _sheet(deal, 0);
        sheet.amount = 2 * PRICE + 1;
        _signSheet(sheet);
        _refused(sheet, IChannels.WrongAmount.selector);
        deal = _deal();
        deal.most = PRICE;
        channel = _open(deal, 1 ether);
        _calls(channel, 2);
        _refused(_sheet(deal, 0), IChannels.WrongAmount.selector);
        deal = _deal();
        channel = _open(deal, 2 * PRICE - 1);
        _calls(channel, 2);
        _refused(_sheet(deal, 0), IChannels.WrongAmount.selector);
        vm.prank(client);
        channels.fund(channel, 1);
        _commit(1, _one(_sheet(deal, 0)));
        assertEq(channels.channelAt(channel).deposit, 0);
    }

    function test_AmountsNeverFall() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 5);
        _commit(1, _one(_sheet(deal, 0)));
        _begin();
        _call(channel);
        Sheet memory sheet = _sheet(deal, 0);
        sheet.amount = 5 * PRICE - 1;
        _signSheet(sheet);
        vm.expectPartialRevert(IChannels.WrongAmount.selector);
        vm.prank(signer);
        channels.commit(offer, 2, _one(sheet));
    }

    /// @dev INVARIANT 54, and what pays the verifiers.
    function test_ABatchCostsNoMoreThanWasOfferedAndPaysItsVerifiers() public {
        (offer.most, offer.checkRate) = (5 * PRICE, 1e18);
        pool = _register(offer);
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 6);
        _refused(_sheet(deal, 0), IChannels.WrongBatchAmount.selector);
        deal = _deal();
        channel = _open(deal, 1 ether);
        _calls(channel, 4);
        Sheet memory sheet = _sheet(deal, 0);
        sheet.amount = 2 * PRICE - 1;
        _signSheet(sheet);
        _refused(sheet, IChannels.WrongBatchAmount.selector);
        sheet.amount = 2 * PRICE;
        _signSheet(sheet);
        _commit(1, _one(sheet));
    }

    function test_ABatchHasNoMoreCallsThanItsSharesCanHold() public {
        offer.checkRate = 1e18;
        pool = _register(offer);
        (Deal memory deal, bytes32 channel,) = _opened();
        _calls(channel, 257);
        Sheet memory sheet = _sheet(deal, 0);
        vm.expectRevert(abi.encodeWithSelector(IChannels.TooManyCalls.selector, 257, 256));
        _commitAs(signer, sheet);
    }

    function test_AChannelStandsInABatchOnce() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        Sheet[] memory sheets = new Sheet[](2);
        _call(channel);
        sheets[0] = _sheet(deal, 0);
        _call(channel);
        sheets[1] = _sheet(deal, 0);
        vm.expectRevert(abi.encodeWithSelector(IChannels.AlreadyLined.selector, channel, 1));
        vm.prank(signer);
        channels.commit(offer, 1, sheets);
    }

    function test_BatchesAreCommittedInOrderInTimeByTheirOperator() public {
        (Deal memory deal, bytes32 channel,) = _opened();
        _begin();
        _call(channel);
        Sheet memory sheet = _sheet(deal, 0);
        vm.expectRevert(abi.encodeWithSelector(IChannels.WrongNumber.selector, pool, 2, 1));
        vm.prank(signer);
        channels.commit(offer, 2, _one(sheet));
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheSigner.selector, anybody, signer));
        _commitAs(anybody, sheet);
        (uint256 commitBy,,,,) = channels.windowsOf(offer, 1);
        vm.roll(commitBy + 1);
        vm.expectPartialRevert(IMarket.TooLate.selector);
        _commitAs(signer, sheet);
    }

    function test_AnEmptyBatchClosesSoon() public {
        _begin();
        uint256 funds = _funds(operator);
        bytes32 batch = _commit(1, new Sheet[](0));
        vm.roll(block.number + p.challenge);
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        channels.close(offer, 1);
        vm.roll(block.number + 1);
        _closeBatch(1);
        _assertBatch(batch, BatchState.Final);
        assertEq(_funds(operator), funds + _collateral());
    }

    function _commitAs(address who, Sheet memory sheet) private {
        vm.prank(who);
        channels.commit(offer, 1, _one(sheet));
    }

    function _refused(Sheet memory sheet, bytes4 selector) private {
        vm.expectPartialRevert(selector);
        vm.prank(signer);
        channels.commit(offer, 1, _one(sheet));
    }
}
