// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Offer} from "../../src/interfaces/Deals.sol";
import {Parameters} from "../../src/interfaces/Tasks.sol";
import {Shares} from "../../src/libraries/Shares.sol";

/// @title Which calls are drawn (INVARIANT 51), and what stands behind them
contract SharesTest is Test {
    bytes32 private constant BATCH = keccak256("batch");
    uint256 private constant WAD = 1e18;

    /// @dev No call is drawn twice, shares differ by one call at most, and together they have k.
    function testFuzz_EveryDrawTakesAnotherCall(bytes32 mix, uint256 leaves, uint256 rate, uint256 verifiers)
        public
        pure
    {
        (leaves, rate, verifiers) = (bound(leaves, 1, 300), bound(rate, 0.05e18, WAD), bound(verifiers, 1, 4));
        uint256 k = Shares.checked(leaves, rate, verifiers);
        assertGe(k * WAD, leaves * rate, "at least its part");
        bool[] memory seen = new bool[](leaves);
        uint256 all;
        for (uint256 g; g < Shares.shares(leaves, verifiers); ++g) {
            uint256 calls = Shares.callsOf(mix, BATCH, leaves, rate, verifiers, g);
            assertGe(calls, k / Shares.shares(leaves, verifiers), "as many for each");
            for (uint256 row; row < calls; ++row) {
                uint256 x = _callAt(mix, seen.length, k, verifiers, g, row);
                assertFalse(seen[x], "twice");
                seen[x] = true;
            }
            all += calls;
        }
        assertEq(all, k);
    }

    function _callAt(bytes32 mix, uint256 leaves, uint256 k, uint256 verifiers, uint256 share, uint256 row)
        private
        pure
        returns (uint256)
    {
        uint256 draw = Shares.drawOf(mix, BATCH, Shares.shares(leaves, verifiers), share, row);
        return Shares.callOf(mix, BATCH, leaves, k, draw);
    }

    function testFuzz_WhatIsCheckedFitsTheShares(uint256 leaves, uint256 rate, uint256 verifiers) public pure {
        (rate, verifiers) = (bound(rate, 0.001e18, WAD), bound(verifiers, 1, 4));
        leaves = bound(leaves, 1, Shares.capacity(rate, verifiers));
        uint256 rows = (Shares.checked(leaves, rate, verifiers) + verifiers - 1) / verifiers;
        assertLe(rows, Shares.SIZE);
    }

    /// @dev For N up to 200, α of 30, 90 and 100 %, n up to 4: over many seeds each call is drawn with probability k / N.
    /// forge-config: default.fuzz.runs = 16
    function testFuzz_EveryCallIsDrawnAsOften(uint256 leaves, uint256 rate, uint256 verifiers) public view {
        (leaves, verifiers) = (bound(leaves, 1, 200), bound(verifiers, 1, 4));
        rate = [0.3e18, 0.9e18, 1e18][bound(rate, 0, 2)];
        uint256 k = Shares.checked(leaves, rate, verifiers);
        uint256 seeds = 400;
        uint256[] memory drawn = new uint256[](leaves);
        for (uint256 seed; seed < seeds; ++seed) {
            uint256[] memory calls = this.callsOf(keccak256(abi.encode(seed)), leaves, k);
            for (uint256 j; j < k; ++j) {
                drawn[calls[j]] += 1;
            }
        }
        for (uint256 x; x < leaves; ++x) {
            uint256 expected = seeds * k / leaves;
            // Five times the deviation of a binomial, whose square is at most a quarter of the seeds.
            assertApproxEqAbs(drawn[x], expected, k == leaves ? 0 : 50, "another chance");
        }
    }

    /// @dev In a call of its own, whose memory is free afterwards.
    function callsOf(bytes32 mix, uint256 leaves, uint256 k) external pure returns (uint256[] memory calls) {
        calls = new uint256[](k);
        for (uint256 j; j < k; ++j) {
            calls[j] = Shares.callOf(mix, BATCH, leaves, k, j);
        }
    }

    /// @dev 256 channels that put 100 prices at risk each, 10,240 calls, α of 5 %, n = 4, r = ⅓.
    function test_TheStakeIsThatOfTheFormula() public pure {
        Parameters memory p;
        (p.sybils, p.stakeMargin) = (uint64(WAD / 3), uint64(WAD));
        uint256 price = 1e15;
        Offer memory o;
        (o.maxPrice, o.most, o.riskEach, o.riskAll) = (price, 10_240 * price, 100 * price, 25_600 * price);
        (o.checkRate, o.verifiers) = (0.05e18, 4);
        assertApproxEqRel(Shares.stake(p, o), 58_096 * price, 1e12);
    }
}
