// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Admission, ITaskMarket} from "../interfaces/ITaskMarket.sol";
import {Book, Life, Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Terms} from "./Terms.sol";

/// @title What the market says of a task to whoever asks, and of whom it admits
library Views {
    using Lives for Life;

    /// @return deadline see `ITaskMarket.deadlineOf`
    /// @return answersBy see `ITaskMarket.answersBy`
    /// @return seedBlock see `ITaskMarket.seedBlockOf`
    function times(Book storage book, Life memory l)
        external
        view
        returns (uint256 deadline, uint256 answersBy, uint256 seedBlock)
    {
        deadline = Lives.deadline(book, l);
        if (l.isCommitted()) (answersBy, seedBlock) = (Lives.answersBy(book, l), l.seedBlock());
    }

    /// @notice Reverts unless the order admits the operator.
    function checkAdmission(bytes32 operators, address operator, Admission calldata a) external pure {
        bool admitted = Merkle.admits(operators, operator, a.index, a.count, a.path);
        if (!admitted) revert ITaskMarket.NotAdmitted(operator, operators);
    }

    /// @notice See `ITaskMarket.isDrawn`.
    function isDrawn(Book storage book, Life memory l, uint256 rate) external view returns (bool known, bool drawn) {
        known = l.isCommitted() && Lives.mixOf(book, l) != 0;
        drawn = known && Lives.isDrawn(book, l, rate);
    }

    /// @notice See `ITaskMarket.seatOf`.
    function seatOf(Book storage book, Life memory l, uint256 index) external view returns (uint256 seat) {
        bytes32 mix = Lives.mixOf(book, l);
        if (mix == 0 || !l.isCommitted()) revert ITaskMarket.NoSeed(l.seedBlock());
        return Terms.seatOf(mix, l.uuid, index, l.draw.seats);
    }
}
