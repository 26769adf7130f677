// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {Parameters} from "../src/interfaces/ITaskMarket.sol";
import {Terms} from "../src/libraries/Terms.sol";

/// @title What windows are good for: which to shorten where a task outlives the time for which stake can be slashed, and
/// what they leave to operators (Python: `eigentensor.economics.timing`)
library Windows {
    using Strings for uint256;

    uint256 private constant COUNT = 9;
    uint256 private constant CHALLENGE = 6;
    /// @dev Blocks for an execution without which no operator accepts: one to execute, one to see the acceptance, one for
    /// the commit.
    uint256 internal constant LEAST_EXEC = 3;

    /// @notice How to make the longest task fit `delay` blocks: each window that suffices alone, with the most it may be;
    /// or else a set of windows that suffices together. Empty where it fits already.
    function advice(Parameters memory p, uint256 delay) internal pure returns (string memory text) {
        if (_lifetime(p) <= delay) return "";
        for (uint256 i; i < COUNT; ++i) {
            uint256 most = _most(p, i, delay);
            if (most == type(uint256).max) continue;
            text = string.concat(text, bytes(text).length == 0 ? "shorten " : ", or ", _change(p, i, most));
        }
        return bytes(text).length == 0 ? _together(p, delay) : text;
    }

    /// @notice The shortest time, in blocks, in which an operator that is away may be convicted: it cannot reveal a drawn
    /// task, or a clock runs out that had not run before.
    function outage(Parameters memory p) internal pure returns (uint256) {
        return Math.min(Terms.revealWindow(p, p.maxExec) - Terms.checkWindow(p, p.maxExec), Terms.clock(p, 1));
    }

    function _together(Parameters memory p, uint256 delay) private pure returns (string memory text) {
        Parameters memory q = p;
        while (_lifetime(q) > delay) {
            uint256 best;
            uint256 least = _lifetime(q);
            for (uint256 i; i < COUNT; ++i) {
                uint256 lifetime = _lifetime(_with(q, i, _floor(q, i)));
                if (lifetime < least) (best, least) = (i, lifetime);
            }
            if (least == _lifetime(q)) {
                return string.concat("no windows are short enough: at their least a task lives ", least.toString());
            }
            uint256 value = least > delay ? _floor(q, best) : _most(q, best, delay);
            text = string.concat(text, bytes(text).length == 0 ? "shorten " : ", and ", _change(q, best, value));
            q = _with(q, best, value);
        }
    }

    function _change(Parameters memory p, uint256 i, uint256 value) private pure returns (string memory) {
        return string.concat(names()[i], " from ", _values(p)[i].toString(), " to ", value.toString());
    }

    /// @dev The most that window `i` may be for everything to fit; the largest number where it cannot be short enough.
    function _most(Parameters memory p, uint256 i, uint256 delay) private pure returns (uint256 low) {
        low = _floor(p, i);
        uint256 high = _values(p)[i];
        if (high < low || _lifetime(_with(p, i, low)) > delay) return type(uint256).max;
        while (low < high) {
            uint256 middle = Math.ceilDiv(low + high, 2);
            (low, high) = _lifetime(_with(p, i, middle)) <= delay ? (middle, high) : (low, middle - 1);
        }
    }

    /// @dev The least that the market's constructor takes, and operators can work with.
    function _floor(Parameters memory p, uint256 i) private pure returns (uint256) {
        if (i == 0) return LEAST_EXEC;
        if (i == CHALLENGE) return Math.saturatingSub(p.reveal, 1);
        return i == 4 || i == 8 ? 0 : 1; // check and margin may be nothing
    }

    function _lifetime(Parameters memory p) private pure returns (uint256) {
        return Terms.lifetime(p, p.maxExec);
    }

    function _with(Parameters memory p, uint256 i, uint256 value) private pure returns (Parameters memory) {
        uint256[21] memory values = _values(p);
        values[i] = value;
        return abi.decode(abi.encode(values), (Parameters));
    }

    function _values(Parameters memory p) private pure returns (uint256[21] memory) {
        return abi.decode(abi.encode(p), (uint256[21]));
    }

    /// @notice The fields of `Parameters` in their order; the windows come first.
    function names() internal pure returns (string[21] memory) {
        return [
            "maxExec",
            "lag",
            "grid",
            "record",
            "check",
            "reveal",
            "challenge",
            "clock",
            "margin",
            "eta",
            "gDef",
            "gMiss",
            "checkFloor",
            "phi",
            "sybils",
            "stakeMargin",
            "minStake",
            "gChk",
            "gChunk",
            "otherSeats",
            "confirmations"
        ];
    }
}
