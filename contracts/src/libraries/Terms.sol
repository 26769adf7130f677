// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Parameters} from "../interfaces/ITaskMarket.sol";

/// @title What a task costs and how long it lives
/// @notice Pure formulas, mirrored by name in Python's `eigentensor.economics`. Amounts are wei, times are blocks, rates
/// are WAD. Prices, fees and values at risk must be below 2^96, and rates be no more than WAD.
/// @dev Then nothing here overflows, and nothing is checked: `Limits` and `offer` hold what is stored to it.
library Terms {
    uint256 internal constant WAD = 1e18;

    /// @notice The price at `blockNumber`: `minPrice` before `rampStart`, rising linearly (rounded down) to `maxPrice` at
    /// `rampStart + rampLength`. A ramp without length is a step at `rampStart`.
    function price(uint256 minPrice, uint256 maxPrice, uint64 rampStart, uint64 rampLength, uint256 blockNumber)
        internal
        pure
        returns (uint256)
    {
        unchecked {
            if (blockNumber < rampStart) return minPrice;
            uint256 elapsed = blockNumber - rampStart;
            if (elapsed >= rampLength) return maxPrice;
            return minPrice + (maxPrice - minPrice) * elapsed / rampLength;
        }
    }

    /// @notice What a client pays at most, and pays in with its order: the highest price and every verifier's fee.
    function escrow(uint256 maxPrice, uint256 verifiers, uint256 checkFee) internal pure returns (uint256) {
        unchecked {
            return maxPrice + verifiers * checkFee;
        }
    }

    /// @notice The lowest fee of a verifier.
    function checkFeeBound(Parameters memory p, uint256 maxPrice) internal pure returns (uint256) {
        unchecked {
            return maxPrice * p.phi / WAD + p.gChk;
        }
    }

    /// @notice a: the rate at which a wrong result meets a verifier outside of the executor's share `sybils` of the seats.
    function detection(uint256 rate, uint256 verifiers, uint256 sybils) internal pure returns (uint256) {
        unchecked {
            uint256 missed = WAD;
            for (uint256 i; i < verifiers; ++i) {
                missed = Math.ceilDiv(missed * sybils, WAD);
            }
            return rate * (WAD - missed) / WAD;
        }
    }

    /// @notice s: the stake that is locked, in wei, so that cheating for `price_ + valueAtRisk` loses on average.
    /// @dev Half of a slash is lost to whoever controls executor and challenger: hence the 2.
    function stake(Parameters memory p, uint256 price_, uint256 valueAtRisk, uint256 rate, uint256 verifiers)
        internal
        pure
        returns (uint256)
    {
        unchecked {
            uint256 a = detection(rate, verifiers, p.sybils);
            uint256 gain = p.stakeMargin * (price_ + valueAtRisk) * (WAD - a) * 2;
            return Math.max(p.minStake, Math.ceilDiv(gain, a * WAD));
        }
    }

    /// @notice W: what a conviction pays to whoever brought it about, from the collateral.
    function reward(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        unchecked {
            return p.gDef + 2 * price_;
        }
    }

    /// @notice K: what the executor holds in the market for one task: one W for an exposure, one for a conviction, and
    /// the verifiers' fees.
    function collateral(Parameters memory p, uint256 price_, uint256 verifiers, uint256 checkFee)
        internal
        pure
        returns (uint256)
    {
        unchecked {
            return 2 * reward(p, price_) + verifiers * checkFee;
        }
    }

    /// @notice h: what the executor loses if it does not commit, or commits and does not reveal. Never above W.
    function penalty(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        unchecked {
            return Math.min(reward(p, price_), price_ * p.eta / WAD + p.gMiss);
        }
    }

    /// @notice B: the bond of a challenger, and of each answer.
    function bond(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        unchecked {
            return Math.ceilDiv(11 * reward(p, price_), 10);
        }
    }

    /// @notice What each living seat holds of its operator's balance, for whoever prunes it.
    function seatDeposit(Parameters memory p) internal pure returns (uint256) {
        return p.gChk;
    }

    /// @notice What the executor gets of a bond that was lost to it; the rest is burned.
    function bondShare(Parameters memory p, uint256 price_) internal pure returns (uint256) {
        return reward(p, price_);
    }

    /// @notice S: the block whose random value decides about a task that was committed at `committedAt`.
    function seedBlock(Parameters memory p, uint256 committedAt) internal pure returns (uint256) {
        unchecked {
            return Math.ceilDiv(committedAt + p.lag, p.grid) * p.grid;
        }
    }

    /// @notice Blocks from the seed block to the last block of an answer.
    function checkWindow(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        unchecked {
            return exec + p.check;
        }
    }

    /// @notice Blocks from the seed block to the last block of the executor's reveal.
    function revealWindow(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        unchecked {
            return Math.max(checkWindow(p, exec), p.record) + p.reveal;
        }
    }

    /// @notice Blocks from the reveal to the last block of a challenge.
    function challengeWindow(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        unchecked {
            return exec + p.challenge;
        }
    }

    /// @notice Blocks of one player's clock in a dispute, and of a demand.
    function clock(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        unchecked {
            return exec + p.clock;
        }
    }

    /// @notice END − accept: blocks from the acceptance to the end of everything that can happen to the task.
    function lifetime(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        unchecked {
            uint256 untilRevealed = exec + p.lag + p.grid + revealWindow(p, exec);
            return untilRevealed + challengeWindow(p, exec) + 2 * clock(p, exec) + p.margin;
        }
    }

    /// @notice Whether a task is checked.
    function isDrawn(bytes32 mix, bytes32 task, uint256 rate) internal pure returns (bool) {
        return uint256(keccak256(abi.encode(mix, task, "draw"))) % WAD < rate;
    }

    /// @notice The seat that is drawn for an answer index.
    function seatOf(bytes32 mix, bytes32 task, uint256 index, uint256 seats) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode(mix, task, index))) % seats;
    }
}
