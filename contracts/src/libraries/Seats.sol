// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @dev Seats that were added at once: consecutive in the array from `start`, and among the operator's own from `first`.
struct Run {
    address operator;
    uint32 since;
    uint32 start;
    uint32 first;
}

/// @dev Of an operator's own seats, counted in the order in which they were added, the first `gone` are tombstones.
struct Owner {
    uint32 added;
    uint32 gone;
    uint32 since;
}

/// @title The array of seats, kept as runs
/// @notice An array that only grows. Every change costs the same for one seat and for thousands.
library Seats {
    using SafeCast for uint256;

    struct Array {
        Run[] runs;
        mapping(address operator => Owner) owners;
        uint32 count;
        uint32 living;
    }

    /// @notice Gives the operator `count` seats more: its tombstones again, then new ones.
    /// @dev A seat that comes back is as young as the block, and so are its owner's others: who was drawn for a task that was
    /// committed before is never somebody new.
    function add(Array storage array, address operator, uint256 count) internal {
        Owner memory owner = array.owners[operator];
        uint32 now_ = block.number.toUint32();
        uint32 revived = Math.min(count, owner.gone).toUint32();
        uint32 fresh = (count - revived).toUint32();
        if (revived != 0) (owner.gone, owner.since) = (owner.gone - revived, now_);
        if (fresh != 0) array.runs.push(Run(operator, now_, array.count, owner.added));
        owner.added += fresh;
        array.owners[operator] = owner;
        (array.count, array.living) = (array.count + fresh, array.living + revived + fresh);
    }

    /// @notice Leaves the operator its newest `seats`; it must have as many.
    function keep(Array storage array, address operator, uint256 seats) internal {
        Owner storage owner = array.owners[operator];
        uint32 gone = owner.added - seats.toUint32();
        array.living -= gone - owner.gone;
        owner.gone = gone;
    }

    /// @notice Living seats of the operator.
    function seatsOf(Array storage array, address operator) internal view returns (uint256) {
        Owner storage owner = array.owners[operator];
        return owner.added - owner.gone;
    }

    /// @notice How long the array was at the end of a block.
    function countAt(Array storage array, uint256 blockNumber) internal view returns (uint256) {
        // Runs stand in the order of their blocks. Mostly nothing came after the one that is asked for.
        (uint256 low, uint256 high) = (0, array.runs.length);
        if (high == 0 || array.runs[high - 1].since <= blockNumber) return array.count;
        for (--high; low < high;) {
            uint256 middle = (low + high) / 2;
            if (array.runs[middle].since <= blockNumber) low = middle + 1;
            else high = middle;
        }
        return array.runs[low].start;
    }

    /// @notice The living owner of the seat `index`, which must be below `count`, or zero; and since when it has it.
    function at(Array storage array, uint256 index) internal view returns (address operator, uint256 since) {
        (uint256 low, uint256 high) = (0, array.runs.length - 1);
        while (low < high) {
            uint256 middle = (low + high + 1) / 2;
            if (array.runs[middle].start <= index) low = middle;
            else high = middle - 1;
        }
        Run memory run = array.runs[low];
        Owner memory owner = array.owners[run.operator];
        if (run.first + (index - run.start) < owner.gone) return (address(0), 0);
        return (run.operator, Math.max(run.since, owner.since));
    }
}
