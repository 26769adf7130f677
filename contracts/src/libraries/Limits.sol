// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IMarket} from "../interfaces/IMarket.sol";
import {ITaskMarket, Order, Parameters} from "../interfaces/ITaskMarket.sol";
import {Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";

/// @title What parameters and orders are allowed to be
library Limits {
    /// @dev Block hashes that EIP-2935 keeps: a seed block must not fall out of it before it is recorded.
    uint256 internal constant HISTORY = 8191;
    /// @dev Prices, fees and values at risk.
    uint256 internal constant AMOUNT = type(uint96).max;
    uint256 internal constant VERIFIERS = 4;
    /// @dev Seats drawn for each verifier: enough that some of them are awake.
    uint256 internal constant DRAWS = 16;
    uint256 internal constant LEAVES = 32;
    /// @dev Games that may be open against a task at once before challengers' further ones are crowded: half of what an
    /// operator has to be able to play at once (README, attack 30).
    uint256 internal constant FREE_GAMES = 4;

    /// @notice Reverts unless a market with these parameters keeps the protocol's promises on a core with this delay.
    function check(Parameters memory p, uint256 delay) internal pure {
        if (p.maxExec == 0) revert ITaskMarket.ZeroMaxExec();
        // INVARIANT 20: the seed block comes after the commit.
        if (p.lag == 0) revert ITaskMarket.ZeroLag();
        if (p.grid == 0) revert ITaskMarket.ZeroGrid();
        if (p.reveal == 0) revert ITaskMarket.ZeroReveal();
        if (p.record == 0) revert ITaskMarket.ZeroRecord();
        // INVARIANT 26: whoever has to move has time for it.
        if (p.clock == 0) revert ITaskMarket.ZeroClock();
        if (p.record > HISTORY) revert ITaskMarket.RecordBeyondHistory(p.record, HISTORY);
        if (uint256(p.challenge) + 1 < p.reveal) {
            revert ITaskMarket.ChallengeShorterThanReveal(p.challenge, p.reveal);
        }
        if (p.eta > Terms.WAD) revert ITaskMarket.EtaAboveOne(p.eta);
        if (p.otherSeats == 0) revert ITaskMarket.ZeroOtherSeats();
        if (p.sybils >= Terms.WAD || p.checkFloor > Terms.WAD || Terms.detection(p.checkFloor, 1, p.sybils) == 0) {
            revert ITaskMarket.WrongCheckFloor(p.checkFloor, p.sybils);
        }
        if (p.stakeMargin < Terms.WAD) revert ITaskMarket.StakeMarginBelowOne(p.stakeMargin);
        uint256 lifetime = Terms.lifetime(p, p.maxExec);
        uint256 most = Math.min(delay, Progresses.LONGEST);
        if (lifetime > most) revert IMarket.OutlivesStake(lifetime, most);
    }

    /// @notice Reverts unless the market takes the order.
    function check(Parameters memory p, Order calldata order) internal view {
        if (order.exec == 0 || order.exec > p.maxExec) revert IMarket.WrongExec(order.exec, p.maxExec);
        if (order.repeat == 0) revert ITaskMarket.ZeroRepeat();
        if (order.minPrice > order.maxPrice || order.maxPrice > AMOUNT) {
            revert ITaskMarket.WrongPrices(order.minPrice, order.maxPrice, AMOUNT);
        }
        if (order.checkRate < p.checkFloor || order.checkRate > Terms.WAD) {
            revert IMarket.WrongCheckRate(order.checkRate, p.checkFloor, Terms.WAD);
        }
        if (order.verifiers == 0 || order.verifiers > VERIFIERS) {
            revert IMarket.WrongVerifiers(order.verifiers, VERIFIERS);
        }
        uint256 fee = Terms.checkFeeBound(p, order.maxPrice);
        if (order.checkFee < fee || order.checkFee > AMOUNT) {
            revert ITaskMarket.WrongCheckFee(order.checkFee, fee, AMOUNT);
        }
        if (order.valueAtRisk > AMOUNT) revert ITaskMarket.WrongValueAtRisk(order.valueAtRisk, AMOUNT);
        if (order.acceptBy < block.number) revert ITaskMarket.AcceptanceOver(order.acceptBy, block.number);
    }
}
