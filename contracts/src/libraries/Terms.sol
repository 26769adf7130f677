// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Parameters} from "../interfaces/ITaskMarket.sol";

/// @title What a task costs and how long it lives
/// @notice Pure formulas, mirrored by name in Python's `eigentensor.economics`. Amounts are wei, times are blocks.
/// Prices must be below 2^96: then nothing here overflows.
library Terms {
    uint256 internal constant WAD = 1e18;

    /// @notice The price at `blockNumber`: `minPrice` before `rampStart`, rising linearly (rounded down) to `maxPrice` at
    /// `rampStart + rampLength`. A ramp without length is a step at `rampStart`.
    function price(uint256 minPrice, uint256 maxPrice, uint64 rampStart, uint64 rampLength, uint256 blockNumber)
        internal
        pure
        returns (uint256)
    {
        if (blockNumber < rampStart) return minPrice;
        uint256 elapsed = blockNumber - rampStart;
        if (elapsed >= rampLength) return maxPrice;
        return minPrice + (maxPrice - minPrice) * elapsed / rampLength;
    }

    /// @notice W: what a conviction pays to whoever brought it about, from the collateral.
    function reward(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        return p.gDef + 2 * price_;
    }

    /// @notice K: what the executor holds in the market for one task.
    function collateral(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        return 2 * reward(p, price_);
    }

    /// @notice h: what the executor loses if it does not commit, or commits and does not reveal. Never above K.
    function penalty(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        return Math.min(reward(p, price_), price_ * p.eta / WAD + p.gMiss);
    }

    /// @notice Blocks from the seed block to the last block of the executor's reveal.
    function revealWindow(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        return Math.max(exec + p.check, p.record) + p.reveal;
    }

    /// @notice Blocks from the reveal to the last block of a challenge.
    function challengeWindow(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        return exec + p.challenge;
    }

    /// @notice END − accept: blocks from the acceptance to the end of everything that can happen to the task.
    function lifetime(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        uint256 untilRevealed = exec + p.lag + p.grid + revealWindow(p, exec);
        return untilRevealed + challengeWindow(p, exec) + 2 * (exec + p.clock) + p.margin;
    }
}
