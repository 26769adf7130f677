// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IDisputeGame} from "../interfaces/IDisputeGame.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Cause, Challenge, ITaskMarket, Order, Parameters, Stage, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Convictions} from "./Convictions.sol";
import {Limits} from "./Limits.sol";
import {Bill, Ledger, Life, Lives} from "./Lives.sol";
import {Terms} from "./Terms.sol";

/// @title Games that are opened against a result, and what their ends move
library Games {
    using Accounts for mapping(address => Account);
    using Lives for Life;

    /// @notice See `ITaskMarket.challenge`. What the bond needs is in the challenger's balance.
    function challenge(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IDisputeGame game,
        address challenger,
        uint256 cap
    ) external returns (uint256 gameId) {
        Life memory l = Lives.load(ledger, p, uuid);
        l.checkState(State.Revealed);
        Lives.checkUntil(l.challengeBy());
        Bill memory b = l.bill(order);
        ledger.accounts.hold(challenger, Terms.bond(l.p, b.price), cap);
        bool crowded = l.tally.games >= Limits.FREE_GAMES;
        return open(ledger, l, b, game, Challenge(challenger, 0, false, crowded));
    }

    /// @notice Opens a game whose bond is held already.
    function open(Ledger storage ledger, Life memory l, Bill memory b, IDisputeGame game, Challenge memory c)
        internal
        returns (uint256 gameId)
    {
        if (ledger.bills[l.uuid].client == address(0)) ledger.bills[l.uuid] = b;
        ledger.tallies[l.uuid].games = l.tally.games + 1;
        // SAFETY: a task's windows are below 2^20 blocks.
        // forge-lint: disable-next-line(unsafe-typecast)
        gameId = game.open(l.uuid, l.progress.executor, c.challenger, uint32(Terms.clock(l.p, l.progress.exec)));
        ledger.challenges[l.uuid][gameId] = c;
        emit ITaskMarket.Challenged(l.uuid, gameId, c.challenger, Terms.bond(l.p, b.price));
    }

    /// @notice See `IDisputeMarket.onGameEnded`.
    function end(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        uint256 gameId,
        bool executorLost,
        bool byClock
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        // INVARIANT 2: the first conviction ends the task; what other games decide after it changes nothing.
        if (l.progress.state != State.Revealed) return;
        Challenge memory c = ledger.challenges[l.uuid][gameId];
        if (c.challenger == address(0) || c.ended) revert IMarket.UnknownChallenge(l.uuid, gameId);

        ledger.challenges[l.uuid][gameId].ended = true;
        emit ITaskMarket.GameEnded(l.uuid, gameId, c.challenger, executorLost);
        Bill memory b = ledger.bills[l.uuid];
        uint256 bond = Terms.bond(l.p, b.price);
        if (executorLost) {
            if (c.slot == 0) ledger.accounts.release(c.challenger, bond, bond);
            Convictions.convict(ledger, l, b, Cause.Verdict, gameId, byClock && c.crowded);
        } else {
            // INVARIANT 9: a part of the bond is burned, whoever plays both sides.
            ledger.accounts.release(c.challenger, bond, 0);
            ledger.accounts.credit(Lives.BURN, bond - Terms.bondShare(l.p, b.price));
            (ledger.tallies[l.uuid].games, ledger.tallies[l.uuid].won) = (l.tally.games - 1, l.tally.won + 1);
            if (c.slot != 0) ledger.answers[l.uuid][c.slot - 1].stage = Stage.Lost;
        }
    }
}
