// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Operands} from "./libraries/Operands.sol";
import {Step} from "./libraries/Step.sol";

/// @title What a step of a program's execution gives, out of its witness alone
/// @notice Whether record, roots and variables are those of a task is for the caller to know.
contract Referee {
    /// @param record The record of the body.
    /// @param variables The values of the body's variables.
    /// @return pattern The accumulator after the step, or the stored element.
    function evaluate(
        bytes calldata record,
        int256[] calldata variables,
        Operands.Tensors calldata tensors,
        Step.Point calldata point
    ) external pure returns (uint256 pattern) {
        return Step.evaluate(record, variables, tensors, point);
    }
}
