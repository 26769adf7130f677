// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {BatchState} from "../../src/interfaces/Deals.sol";
import {ChannelHandler} from "./ChannelHandler.sol";

/// @title The invariants of `contracts/README.md` that speak of channels, by their numbers
/// forge-config: default.invariant.runs = 16
contract ChannelInvariants is Test {
    ChannelHandler private handler;

    function setUp() public {
        handler = new ChannelHandler();
        bytes4[21] memory messages = [
            ChannelHandler.pass.selector,
            ChannelHandler.begin.selector,
            ChannelHandler.serve.selector,
            ChannelHandler.commit.selector,
            ChannelHandler.seed.selector,
            ChannelHandler.answer.selector,
            ChannelHandler.revealRoots.selector,
            ChannelHandler.reveal.selector,
            ChannelHandler.justify.selector,
            ChannelHandler.challenge.selector,
            ChannelHandler.endGame.selector,
            ChannelHandler.demand.selector,
            ChannelHandler.show.selector,
            ChannelHandler.accuse.selector,
            ChannelHandler.close.selector,
            ChannelHandler.settle.selector,
            ChannelHandler.refund.selector,
            ChannelHandler.refundBond.selector,
            ChannelHandler.slash.selector,
            ChannelHandler.leave.selector,
            ChannelHandler.end.selector
        ];
        bytes4[] memory selectors = new bytes4[](messages.length + 3);
        for (uint256 i; i < messages.length; ++i) {
            selectors[i] = messages[i];
        }
        selectors[messages.length] = ChannelHandler.conclude.selector;
        // Calls are what all is about.
        selectors[messages.length + 1] = ChannelHandler.serve.selector;
        selectors[messages.length + 2] = ChannelHandler.serve.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    /// @dev The handler can reach every end, so the invariants speak about something.
    function test_Handler_ReachesEveryEnd() public {
        // 1 unchecked, 2 with a share that is not justified, 3 with a false call, 4 without a seed, 5 never committed.
        for (uint256 n; n < 4; ++n) {
            for (uint256 i; i < 6; ++i) {
                handler.serve(i % 3, n != 2);
            }
            if (n == 3) handler.pass(1); // a seed block of its own
            handler.commit(n);
            handler.begin();
        }
        for (uint256 n = 1; n < 4; ++n) {
            handler.seed(n);
        }
        for (uint256 i; i < 32; ++i) {
            handler.answer(1, i, true);
            handler.answer(2, i, true);
        }
        handler.demand(1, 3);
        handler.show(0);
        handler.challenge(1, 2);
        handler.challenge(3, 2);
        handler.pass(23);
        handler.revealRoots(1, true);
        handler.revealRoots(2, false);
        for (uint256 i; i < 32; ++i) {
            handler.reveal(1, i);
            handler.reveal(2, i);
        }
        assertEq(handler.held(), handler.owed(), "46");
        handler.endGame(0);
        handler.endGame(0);
        assertEq(handler.held(), handler.owed(), "46");
        handler.finish();
        assertTrue(handler.isOver(), "49");
        BatchState[5] memory ends =
            [BatchState.Final, BatchState.Convicted, BatchState.Convicted, BatchState.Failed, BatchState.Lapsed];
        for (uint32 n; n < 5; ++n) {
            assertEq(uint8(handler.stateOf(n + 1)), uint8(ends[n]), "end");
            for (uint256 i; i < 32; ++i) {
                handler.settle(n + 1, i);
            }
            for (uint32 i; i < 3; ++i) {
                handler.refund(n + 1, i);
            }
            handler.slash(n + 1);
        }
        assertEq(handler.held(), handler.owed(), "46");
    }

    /// @dev 46: tokens are what somebody is owed, to the wei.
    function invariant_46_TokensAreOwed() public view {
        assertEq(handler.held(), handler.owed());
    }

    /// @dev 49: time and anybody end every batch; then only accounts, deposits and what is to be fetched are left.
    function afterInvariant() public {
        handler.finish();
        assertTrue(handler.isOver(), "49");
        assertEq(handler.held(), handler.owed(), "46");
    }
}
