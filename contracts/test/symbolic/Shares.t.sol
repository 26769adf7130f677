// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Shares} from "../../src/libraries/Shares.sol";

/// @title Which calls of a batch are checked by whom, whatever the random value and the batch are
contract SharesSymbolic {
    uint256 private constant WAD = 1e18;
    uint256 private constant LEAVES = 6;
    uint256 private constant VERIFIERS = 4;

    /// @dev The calls of all draws are there, and none is drawn twice; at a rate of one each is drawn once.
    function check_EveryCallIsInRangeAndDrawnOnce(uint8 leaves, uint8 checked, bytes32 mix, bytes32 batch) public pure {
        for (uint256 n = 1; n <= LEAVES; ++n) {
            if (leaves != n) continue;
            for (uint256 k = 1; k <= n; ++k) {
                if (checked != k) continue;
                uint256 drawn;
                for (uint256 draw; draw < k; ++draw) {
                    uint256 call = Shares.callOf(mix, batch, n, k, draw);
                    assert(call < n);
                    assert(drawn >> call & 1 == 0);
                    drawn |= 1 << call;
                }
                if (k == n) assert(drawn == 2 ** n - 1);
                return;
            }
        }
    }

    /// @dev In each row every share has one draw, and none is another's.
    function check_SharesPartitionTheDraws(uint8 shares, uint8 row, bytes32 mix, bytes32 batch) public pure {
        for (uint256 count = 1; count <= VERIFIERS; ++count) {
            if (shares != count) continue;
            uint256 drawn;
            for (uint256 share; share < count; ++share) {
                uint256 draw = Shares.drawOf(mix, batch, count, share, row);
                assert(draw / count == row);
                assert(drawn >> draw % count & 1 == 0);
                drawn |= 1 << draw % count;
            }
            assert(drawn == 2 ** count - 1);
            return;
        }
    }

    /// @dev The shares have as many calls as are checked, and none has two more than another.
    function check_SharesHaveAllCallsThatAreChecked(
        uint8 leaves,
        uint8 verifiers,
        uint8 percent,
        bytes32 mix,
        bytes32 batch
    ) public pure {
        for (uint256 n = 1; n <= LEAVES; ++n) {
            if (leaves != n) continue;
            for (uint256 v = 1; v <= VERIFIERS; ++v) {
                if (verifiers != v) continue;
                for (uint256 k = 1; k <= n; ++k) {
                    if (percent != k) continue;
                    _count(mix, batch, n, v, k * WAD / n);
                    return;
                }
            }
        }
    }

    function _count(bytes32 mix, bytes32 batch, uint256 n, uint256 v, uint256 rate) private pure {
        uint256 k = Shares.checked(n, rate, v);
        uint256 count = Shares.shares(n, v);
        assert(k >= count && k <= n && k * WAD >= n * rate);
        uint256 all;
        for (uint256 share; share < count; ++share) {
            uint256 calls = Shares.callsOf(mix, batch, n, rate, v, share);
            assert(calls == k / count || calls == k / count + 1);
            all += calls;
        }
        assert(all == k);
    }
}
