// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {WAD} from "./Types.sol";

/// @title The core's arithmetic of shares and magnitudes, to the wei
library Slashing {
    function mulWad(uint256 x, uint256 y) internal pure returns (uint256) {
        return Math.mulDiv(x, y, WAD);
    }

    function mulWadUp(uint256 x, uint256 y) internal pure returns (uint256) {
        return Math.mulDiv(x, y, WAD, Math.Rounding.Ceil);
    }

    function divWad(uint256 x, uint256 y) internal pure returns (uint256) {
        return Math.mulDiv(x, WAD, y);
    }

    /// @notice What `shares` lose when the maximal magnitude falls: never more than their part.
    function slashed(uint256 shares, uint256 previousMagnitude, uint256 newMagnitude) internal pure returns (uint256) {
        return shares - Math.mulDiv(shares, newMagnitude, previousMagnitude, Math.Rounding.Ceil);
    }

    /// @notice What is left of `depositShares` for their staker.
    function withdrawable(uint256 depositShares, uint256 scalingFactor, uint256 magnitude)
        internal
        pure
        returns (uint256)
    {
        return mulWad(mulWad(depositShares, scalingFactor), magnitude);
    }

    /// @notice The scaling factor under which `added` shares come unslashed to what earlier slashes have left.
    function scalingFactorAfter(uint256 scalingFactor, uint256 previousShares, uint256 added, uint256 magnitude)
        internal
        pure
        returns (uint256)
    {
        if (previousShares == 0) return divWad(scalingFactor, magnitude);
        uint256 current = withdrawable(previousShares, scalingFactor, magnitude);
        return divWad(divWad(current + added, previousShares + added), magnitude);
    }
}
