// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Offer} from "../src/interfaces/Deals.sol";
import {Parameters} from "../src/interfaces/ITaskMarket.sol";
import {Shares} from "../src/libraries/Shares.sol";

/// @title The shares of a batch, and what stands behind it, from outside
contract SharesBatch {
    struct Case {
        uint256 leaves;
        uint256 rate;
        uint256 verifiers;
        bytes32 mix;
        bytes32 batch;
        uint256 share; // below min(leaves, verifiers)
        uint256 row;
        uint256 draw; // below the calls that are checked
        uint256 checkPrice;
    }

    /// @return amounts Every formula once, in the order of the library.
    function evaluate(Parameters calldata parameters, Offer calldata offer, Case calldata c)
        external
        pure
        returns (uint256[12] memory amounts)
    {
        Parameters memory p = parameters;
        uint256 count = Shares.shares(c.leaves, c.verifiers);
        uint256 k = Shares.checked(c.leaves, c.rate, c.verifiers);
        amounts[0] = Shares.capacity(c.rate, c.verifiers);
        amounts[1] = count;
        amounts[2] = k;
        amounts[3] = Shares.drawOf(c.mix, c.batch, count, c.share, c.row);
        amounts[4] = Shares.callsOf(c.mix, c.batch, c.leaves, c.rate, c.verifiers, c.share);
        amounts[5] = Shares.callOf(c.mix, c.batch, c.leaves, k, c.draw);
        amounts[6] = Shares.fee(p, c.checkPrice, k, count);
        amounts[7] = Shares.leastAmount(p, c.checkPrice, k);
        amounts[8] = Shares.collateral(p, offer.maxPrice, c.verifiers);
        amounts[9] = Shares.stake(p, offer);
        amounts[10] = Shares.window(p, offer.exec);
        amounts[11] = Shares.lifetime(p, offer.exec, offer.epoch);
    }
}
