// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IMarket} from "../interfaces/IMarket.sol";
import {Admission, ITaskMarket, Parameters} from "../interfaces/ITaskMarket.sol";
import {Ledger, Life, Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Terms} from "./Terms.sol";

/// @title What the market says of a task to whoever asks, and of whom it admits
library Views {
    using Lives for Life;

    /// @return deadline see `ITaskMarket.deadlineOf`
    /// @return answersBy see `ITaskMarket.answersBy`
    /// @return seedBlock see `ITaskMarket.seedBlockOf`
    function times(Ledger storage ledger, Parameters memory p, bytes32 uuid)
        external
        view
        returns (uint256 deadline, uint256 answersBy, uint256 seedBlock)
    {
        Life memory l = Lives.load(ledger, p, uuid);
        deadline = Lives.deadline(ledger, l);
        if (l.isCommitted()) (answersBy, seedBlock) = (Lives.answersBy(ledger, l), l.seedBlock());
    }

    /// @notice Reverts unless the order admits the operator.
    function checkAdmission(bytes32 operators, address operator, Admission calldata a) external pure {
        bool admitted = Merkle.admits(operators, operator, a.index, a.count, a.path);
        if (!admitted) revert ITaskMarket.NotAdmitted(operator, operators);
    }

    /// @notice See `ITaskMarket.isDrawn`.
    function isDrawn(Ledger storage ledger, Parameters memory p, bytes32 uuid, uint256 rate)
        external
        view
        returns (bool known, bool drawn)
    {
        Life memory l = Lives.load(ledger, p, uuid);
        known = l.isCommitted() && Lives.mixOf(ledger, l) != 0;
        drawn = known && Lives.isDrawn(ledger, l, rate);
    }

    /// @notice See `ITaskMarket.seatOf`.
    function seatOf(Ledger storage ledger, Parameters memory p, bytes32 uuid, uint256 index)
        external
        view
        returns (uint256 seat)
    {
        Life memory l = Lives.load(ledger, p, uuid);
        bytes32 mix = Lives.mixOf(ledger, l);
        if (mix == 0 || !l.isCommitted()) revert IMarket.NoSeed(l.seedBlock());
        return Terms.seatOf(mix, l.uuid, index, l.draw.seats);
    }
}
