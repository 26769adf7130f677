// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IMarket} from "../interfaces/IMarket.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Admission, Conviction, ITaskMarket, Parameters, Task} from "../interfaces/ITaskMarket.sol";
import {Convictions} from "./Convictions.sol";
import {Ledger, Life, Lives, Tally} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Progress, Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";

/// @title What the market says of a task to whoever asks, and of whom it admits
library Views {
    using Lives for Life;
    using Progresses for mapping(bytes32 => uint256);
    using SafeCast for uint256;

    /// @notice See `ITaskMarket.taskAt`.
    function taskAt(Ledger storage ledger, IServiceManager serviceManager, bytes32 uuid)
        external
        view
        returns (Task memory)
    {
        Progress memory progress = ledger.progress.load(uuid);
        Tally memory tally = ledger.tallies[uuid];
        return Task({
            executor: progress.executor,
            state: progress.state,
            acceptedAt: progress.acceptedAt,
            since: progress.since,
            exec: progress.exec,
            claim: ledger.claims[uuid],
            committedAt: progress.committedAt,
            seats: progress.committedAt == 0 ? 0 : serviceManager.seatCountAt(progress.committedAt).toUint32(),
            answered: tally.answered,
            agreed: tally.agreed,
            differed: tally.differed
        });
    }

    /// @notice See `ITaskMarket.convictionOf`.
    function convictionOf(Ledger storage ledger, bytes32 uuid) external view returns (Conviction memory) {
        return Convictions.convictionOf(ledger, uuid);
    }

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
    function seatOf(
        Ledger storage ledger,
        Parameters memory p,
        IServiceManager serviceManager,
        bytes32 uuid,
        uint256 index
    ) external view returns (uint256 seat) {
        Life memory l = Lives.load(ledger, p, uuid);
        bytes32 mix = Lives.mixOf(ledger, l);
        if (mix == 0 || !l.isCommitted()) revert IMarket.NoSeed(l.seedBlock());
        return Terms.seatOf(mix, l.uuid, index, serviceManager.seatCountAt(l.progress.committedAt));
    }
}
