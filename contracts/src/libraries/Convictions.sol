// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {
    Answer,
    Cause,
    Challenge,
    Conviction,
    ITaskMarket,
    Order,
    Parameters,
    Stage,
    State
} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Bits} from "./Bits.sol";
import {Bill, Ledger, Life, Lives} from "./Lives.sol";
import {Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";

/// @title Who gets what of a task that is over, beyond what its end paid at once
library Convictions {
    using Accounts for mapping(address => Account);
    using Bits for uint64;
    using Lives for Life;
    using Progresses for mapping(bytes32 => uint256);
    using SafeCast for uint256;

    /// @notice Why and how a task was convicted; all zero if it was not.
    function convictionOf(Ledger storage ledger, bytes32 uuid) internal view returns (Conviction memory c) {
        Bill storage stored = ledger.bills[uuid];
        uint8 marks = stored.marks;
        (c.cause, c.crowded) = (stored.cause, marks & Lives.CROWDED != 0);
        (c.divided, c.slashed) = (marks & Lives.DIVIDED != 0, marks & Lives.SLASHED != 0);
        if (c.cause == Cause.Verdict) c.winner = ledger.challenges[uuid][stored.game].challenger;
    }

    /// @notice Makes the task Convicted: the client gets its escrow, a winner W; the rest waits for `settle` and `slash`, or
    /// is burned.
    function convict(Ledger storage ledger, Life memory l, Bill memory b, Cause cause, uint256 gameId, bool crowded)
        internal
    {
        uint256 held = l.collateral(b);
        (uint256 won, uint256 prepaid) = Lives.gains(ledger, l, b);
        uint256 reward = Terms.reward(l.p, b.price);
        uint256 refunded = Lives.escrow(b) + prepaid;
        address winner = _write(ledger, l.uuid, cause, gameId, crowded);
        ledger.accounts.release(l.progress.executor, held, 0);
        // INVARIANT 4: the client has its whole escrow back in the transaction that convicts.
        ledger.accounts.credit(b.client, refunded);
        if (winner != address(0)) ledger.accounts.credit(winner, reward);
        // INVARIANT 8: what is neither a reward nor a verifier's fee is lost to everybody.
        ledger.accounts.credit(Lives.BURN, held - reward - uint256(b.verifiers) * b.checkFee + won);
        emit ITaskMarket.Convicted(l.uuid, cause, winner, refunded);
    }

    /// @notice See `ITaskMarket.settle`.
    function settle(Ledger storage ledger, Parameters memory p, bytes32 uuid, Order calldata order, uint256 index)
        external
    {
        Life memory l = Lives.load(ledger, p, uuid);
        Bill memory b = l.bill(order);
        Answer memory a = ledger.answers[l.uuid][index];
        bool held = a.stage == Stage.Hidden || a.stage == Stage.Agreed || a.stage == Stage.Differed;
        uint256 bond = held ? Terms.bond(l.p, b.price) : 0;
        uint256 earned;
        if (l.progress.state == State.Final) {
            if (a.stage == Stage.Agreed) earned = _fee(b, l.tally.agreed, index);
        } else {
            _divide(ledger, l, b);
            if (a.stage == Stage.Differed || a.stage == Stage.Lost) {
                held = true;
                earned = _fee(b, l.tally.differed, index) + _part(ledger, l, b);
            }
        }
        if (!held) revert IMarket.NothingToSettle(l.uuid, index + 1);

        ledger.answers[l.uuid][index].stage = Stage.Paid;
        uint256 returned = a.stage == Stage.Hidden ? 0 : bond;
        ledger.accounts.release(a.operator, bond, returned + earned);
        ledger.accounts.credit(Lives.BURN, bond - returned);
        emit ITaskMarket.Settled(l.uuid, index + 1, a.operator, returned + earned);
    }

    /// @notice See `ITaskMarket.refund`.
    function refund(Ledger storage ledger, Parameters memory p, bytes32 uuid, Order calldata order, uint256 gameId)
        external
    {
        Life memory l = Lives.load(ledger, p, uuid);
        l.checkState(State.Convicted);
        Challenge memory c = ledger.challenges[l.uuid][gameId];
        if (c.challenger == address(0) || c.ended || c.slot != 0) revert IMarket.UnknownChallenge(l.uuid, gameId);

        ledger.challenges[l.uuid][gameId].ended = true;
        uint256 bond = Terms.bond(l.p, l.priceOf(order));
        // INVARIANT 43: who helps to open more games than can be answered pays for it, where nothing was proven.
        uint256 burned = c.crowded && ledger.bills[l.uuid].marks & Lives.CROWDED != 0 ? bond / 2 : 0;
        ledger.accounts.release(c.challenger, bond, bond - burned);
        if (burned != 0) ledger.accounts.credit(Lives.BURN, burned);
        emit ITaskMarket.BondReturned(l.uuid, gameId, c.challenger, bond - burned);
    }

    /// @notice See `ITaskMarket.slash`.
    function slash(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IServiceManager serviceManager
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        Bill memory b = l.bill(order);
        _divide(ledger, l, b);
        Conviction memory c = convictionOf(ledger, l.uuid);
        // INVARIANT 13: a conviction slashes its executor, once.
        if (c.slashed) revert IMarket.AlreadySlashed(l.uuid);
        ledger.bills[l.uuid].marks |= Lives.SLASHED;

        bool late = block.number > l.progress.acceptedAt + Terms.lifetime(l.p, l.progress.exec);
        if (c.winner == address(0) && (c.cause != Cause.Silence || l.tally.differed == 0)) {
            uint256 unearned = Terms.reward(l.p, b.price);
            address receiver = late ? Lives.BURN : msg.sender;
            ledger.accounts.credit(receiver, unearned);
            emit ITaskMarket.Settled(l.uuid, 0, receiver, unearned);
        }
        if (late) return;
        address[] memory list = _beneficiaries(ledger, l, c);
        // INVARIANT 15: what stops the core undoes this call, and nothing else waits for it.
        (uint256 slashId, uint256 shares) = serviceManager.slash(l.uuid, l.progress.executor, list);
        emit ITaskMarket.Slashed(l.uuid, slashId, shares, msg.sender);
    }

    /// @dev Who won the deciding game; nobody where there is none, which is number zero.
    function _write(Ledger storage ledger, bytes32 uuid, Cause cause, uint256 gameId, bool crowded)
        private
        returns (address winner)
    {
        ledger.progress.setState(uuid, State.Convicted);
        Bill storage stored = ledger.bills[uuid];
        (stored.cause, stored.game, stored.marks) = (cause, gameId.toUint40(), crowded ? Lives.CROWDED : 0);
        return ledger.challenges[uuid][gameId].challenger;
    }

    /// @dev Once, when nobody can answer any more: burns fees and parts of W that no verifier will get.
    function _divide(Ledger storage ledger, Life memory l, Bill memory b) private {
        l.checkState(State.Convicted);
        Lives.checkAfter(Lives.answersBy(ledger, l));
        Bill storage stored = ledger.bills[l.uuid];
        if (stored.marks & Lives.DIVIDED != 0) return;
        stored.marks |= Lives.DIVIDED;
        uint256 differed = l.tally.differed.count();
        uint256 rest = (b.verifiers - Math.min(differed, b.verifiers)) * b.checkFee;
        if (differed != 0 && stored.cause == Cause.Silence) rest += Terms.reward(l.p, b.price) % differed;
        ledger.accounts.credit(Lives.BURN, rest);
    }

    /// @dev The n lowest of a set are paid.
    function _fee(Bill memory b, uint64 set, uint256 index) private pure returns (uint256) {
        return set.rank(index) < b.verifiers ? b.checkFee : 0;
    }

    /// @dev A verifier's part of W where the executor kept silent.
    function _part(Ledger storage ledger, Life memory l, Bill memory b) private view returns (uint256) {
        if (ledger.bills[l.uuid].cause != Cause.Silence) return 0;
        return Terms.reward(l.p, b.price) / l.tally.differed.count();
    }

    /// @dev Who shares half of the slash: who differed, else the winner unless its game was crowded, else nobody.
    function _beneficiaries(Ledger storage ledger, Life memory l, Conviction memory c)
        private
        view
        returns (address[] memory list)
    {
        uint64 differed = l.tally.differed;
        if (differed == 0) {
            if (c.winner == address(0) || c.crowded) return list;
            list = new address[](1);
            list[0] = c.winner;
            return list;
        }
        list = new address[](differed.count());
        uint256 n;
        for (uint256 i; differed >> i != 0; ++i) {
            if (differed.has(i)) list[n++] = ledger.answers[l.uuid][i].operator;
        }
    }
}
