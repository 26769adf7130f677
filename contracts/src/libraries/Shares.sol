// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Offer} from "../interfaces/Deals.sol";
import {Parameters} from "../interfaces/Tasks.sol";
import {Terms} from "./Terms.sol";

/// @title Which calls of a batch are checked by whom, and what stands behind a batch
/// @notice Pure formulas, mirrored by name in Python's `eigentensor.economics.shares`.
library Shares {
    uint256 internal constant WAD = Terms.WAD;
    /// @dev Calls of a share: a verifier executes them in one window, and they are justified in a few transactions.
    uint256 internal constant SIZE = 256;
    /// @dev Calls that are justified at once: a power of two, so that a part is a subtree of its share.
    uint256 internal constant PART = 64;
    uint256 internal constant PART_LEVELS = 6;
    /// @dev Calls of a voucher that are not acknowledged.
    uint256 internal constant TAIL = 8;

    // ---- The draw ----

    /// @notice How many calls a batch may have: all that are checked fit the shares.
    function capacity(uint256 rate, uint256 verifiers) internal pure returns (uint256) {
        return verifiers * SIZE * WAD / rate;
    }

    /// @notice How many shares there are: one for each verifier, as far as there are calls.
    function shares(uint256 leaves, uint256 verifiers) internal pure returns (uint256) {
        return Math.min(leaves, verifiers);
    }

    /// @notice k: how many calls are checked: α of them, and one for each share at least.
    function checked(uint256 leaves, uint256 rate, uint256 verifiers) internal pure returns (uint256) {
        return Math.min(leaves, Math.max(verifiers, Math.ceilDiv(leaves * rate, WAD)));
    }

    /// @notice The number of the draw that stands at `row` of a share, from zero; k or more: there is none.
    /// @dev Whose turn is the first changes from row to row, so that nobody's share is a part of the batch that is known
    /// before.
    function drawOf(bytes32 mix, bytes32 batch, uint256 count, uint256 share, uint256 row)
        internal
        pure
        returns (uint256)
    {
        uint256 turn = uint256(keccak256(abi.encode(mix, batch, row, "turn"))) % count;
        return row * count + (share + turn) % count;
    }

    /// @notice How many calls a share has.
    function callsOf(bytes32 mix, bytes32 batch, uint256 leaves, uint256 rate, uint256 verifiers, uint256 share)
        internal
        pure
        returns (uint256)
    {
        uint256 k = checked(leaves, rate, verifiers);
        uint256 count = shares(leaves, verifiers);
        uint256 rows = Math.ceilDiv(k, count);
        return drawOf(mix, batch, count, share, rows - 1) < k ? rows : rows - 1;
    }

    /// @notice The number x of the call that draw `draw` of k takes, among `leaves`.
    /// @dev Each of k parts of the batch gives one call. Parts differ in width by one where k does not divide the leaves:
    /// all of them are shifted together, so that every call is drawn with probability k / leaves wherever it stands.
    function callOf(bytes32 mix, bytes32 batch, uint256 leaves, uint256 k, uint256 draw)
        internal
        pure
        returns (uint256)
    {
        uint256 low = draw * leaves / k;
        uint256 width = (draw + 1) * leaves / k - low;
        // Remainders before the sum, which two whole words would overflow.
        uint256 leaf = uint256(keccak256(abi.encode(mix, batch, draw, "leaf"))) % width;
        uint256 shift = uint256(keccak256(abi.encode(mix, batch, 0, "shift"))) % leaves;
        return (low + leaf + shift) % leaves;
    }

    // ---- Money ----

    /// @notice v: what the verifier of each of `count` shares is paid, of k calls that are checked. Shares that have one
    /// call more than others are paid alike: so fees are known without the seed.
    function fee(Parameters memory p, uint256 checkPrice, uint256 k, uint256 count) internal pure returns (uint256) {
        return p.gChk + p.phi * checkPrice * (k / count) / WAD;
    }

    /// @notice What the calls of a batch must cost at least, so that they and the collateral pay all verifiers.
    function leastAmount(Parameters memory p, uint256 checkPrice, uint256 k) internal pure returns (uint256) {
        return p.phi * checkPrice * k / WAD;
    }

    /// @notice K: what the operator holds for one batch: W, and the fixed part of the verifiers' fees.
    function collateral(Parameters memory p, uint256 maxPrice, uint256 verifiers) internal pure returns (uint256) {
        return Terms.reward(p, maxPrice) + verifiers * p.gChk;
    }

    /// @notice s: the stake that is locked for one batch, in wei, so that wrong results of any number of its calls lose on
    /// average, for all that its channels put at risk.
    /// @dev With a = α(1 − r): s = 2 · margin · (X̂/a + ΣX̄/(1 − rⁿ) + max(P(1 − a)/a, M·rⁿ/(1 − rⁿ))). Half of a slash is
    /// lost to whoever controls operator and winner: hence the 2.
    function stake(Parameters memory p, Offer memory o) internal pure returns (uint256) {
        uint256 a = Terms.detection(o.checkRate, 1, p.sybils);
        uint256 seen = Terms.detection(WAD, o.verifiers, p.sybils);
        uint256 one = Math.ceilDiv(o.maxPrice * (WAD - a), a);
        uint256 all = Math.ceilDiv(o.most * (WAD - seen), seen);
        uint256 gain = Math.ceilDiv(o.riskEach * WAD, a) + Math.ceilDiv(o.riskAll * WAD, seen) + Math.max(one, all);
        return Math.max(p.minStake, Math.ceilDiv(2 * gain * p.stakeMargin, WAD));
    }

    // ---- Time ----

    /// @notice WINDOW: blocks from the commit to the last block of a dispute.
    function window(Parameters memory p, uint256 exec) internal pure returns (uint256) {
        return p.lag + p.grid + Terms.revealWindow(p, exec) + p.reveal + Terms.challengeWindow(p, exec);
    }

    /// @notice Blocks from the begin of a batch to the end of everything that can happen to it: a call is demanded in the last
    /// block of the window, shown in the last block for that, disputed in the last block after it.
    function lifetime(Parameters memory p, uint256 exec, uint256 epoch) internal pure returns (uint256) {
        return epoch + window(p, exec) + 3 * Terms.clock(p, exec) + p.reveal + p.margin;
    }
}
