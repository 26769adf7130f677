// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Parameters} from "../src/interfaces/ITaskMarket.sol";
import {Terms} from "../src/libraries/Terms.sol";

/// @title The terms of a task from outside
contract TermsBatch {
    struct Case {
        uint256 minPrice;
        uint256 maxPrice;
        uint64 rampStart;
        uint64 rampLength;
        uint256 blockNumber;
        uint256 checkFee;
        uint256 rate;
        uint256 verifiers;
        uint256 valueAtRisk;
        uint256 exec;
        bytes32 mix;
        bytes32 task;
        uint256 index;
        uint256 seats;
    }

    /// @return amounts Every formula once, in the order of the library.
    function evaluate(Parameters calldata parameters, Case calldata c)
        external
        pure
        returns (uint256[19] memory amounts)
    {
        Parameters memory p = parameters;
        uint256 price = Terms.price(c.minPrice, c.maxPrice, c.rampStart, c.rampLength, c.blockNumber);
        amounts[0] = price;
        amounts[1] = Terms.escrow(c.maxPrice, c.verifiers, c.checkFee);
        amounts[2] = Terms.checkFeeBound(p, c.maxPrice);
        amounts[3] = Terms.detection(c.rate, c.verifiers, p.sybils);
        amounts[4] = Terms.stake(p, price, c.valueAtRisk, c.rate, c.verifiers);
        amounts[5] = Terms.reward(p, price);
        amounts[6] = Terms.collateral(p, price, c.verifiers, c.checkFee);
        amounts[7] = Terms.penalty(p, price);
        amounts[8] = Terms.bond(p, price);
        amounts[9] = Terms.bondShare(p, price);
        amounts[10] = Terms.seatDeposit(p);
        amounts[11] = Terms.seedBlock(p, c.blockNumber);
        amounts[12] = Terms.checkWindow(p, c.exec);
        amounts[13] = Terms.revealWindow(p, c.exec);
        amounts[14] = Terms.challengeWindow(p, c.exec);
        amounts[15] = Terms.clock(p, c.exec);
        amounts[16] = Terms.lifetime(p, c.exec);
        amounts[17] = Terms.isDrawn(c.mix, c.task, c.rate) ? 1 : 0;
        amounts[18] = Terms.seatOf(c.mix, c.task, c.index, c.seats);
    }
}
