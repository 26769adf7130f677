// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {
    Batch,
    BatchState,
    Breach,
    Channel,
    ChannelState,
    Judgment,
    Line,
    LineProof,
    Offer,
    Payback
} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Challenge, Parameters, Stage} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Batches, Book, Env, Run} from "./Batches.sol";
import {Bits} from "./Bits.sol";
import {Limits} from "./Limits.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Shares} from "./Shares.sol";
import {Terms} from "./Terms.sol";

/// @title How a batch ends, and who gets what of it
library BatchEnds {
    using Accounts for mapping(address => Account);
    using Batches for Run;
    using Bits for uint64;
    using SafeCast for uint256;

    /// @dev What a conviction needs of an offer.
    struct Liability {
        address operator;
        uint256 maxPrice;
        uint256 verifiers;
    }

    /// @notice Makes the batch Convicted: the winner gets W, all that the lines cost is for the clients.
    function convict(
        Book storage book,
        Parameters memory p,
        bytes32 id,
        Liability memory t,
        Breach breach,
        address winner,
        bool crowded
    ) internal {
        Batch storage b = book.batches[id];
        uint256 held = Shares.collateral(p, t.maxPrice, t.verifiers);
        uint256 reward = Terms.reward(p, t.maxPrice);
        // INVARIANT 2: every way into a terminal state starts from another state, and no way leads out.
        b.state = BatchState.Convicted;
        // INVARIANT 55: the clients of all lines have back what they paid, or a liar keeps what the others paid.
        if (b.amount != 0) book.paybacks[id] = Payback(b.amount, b.amount);
        book.judgments[id] = Judgment(winner, breach, false, crowded);
        book.accounts.release(t.operator, held, 0);
        book.accounts.credit(winner, reward);
        book.accounts.credit(Lives.BURN, held - reward + uint256(b.won) * Terms.bondShare(p, t.maxPrice));
        emit IChannels.Convicted(id, breach, winner);
    }

    /// @notice `convict` by a message that has the offer. A batch that was not committed yet takes its pool with it.
    function convict(Book storage book, Run memory r, Offer calldata o, Breach breach, address winner) internal {
        if (r.b.state == BatchState.Begun) book.pools[r.pool].over = true;
        convict(book, r.p, r.id, Liability(o.operator, o.maxPrice, o.verifiers), breach, winner, false);
    }

    /// @notice See `IChannels.close`.
    function close(Book storage book, Env memory env, Offer calldata o, uint32 number) external {
        Run memory r = Batches.load(book, env, o, number);
        if (r.b.state == BatchState.Begun) {
            Lives.checkAfter(r.commitBy(o) + r.p.challenge);
            return _finish(book, env, r, o, BatchState.Lapsed, 0, 0);
        }
        r.checkState(BatchState.Committed);
        // INVARIANT 3: nobody is paid while a game or a demand can still end in a conviction.
        if (r.b.games != 0) revert IMarket.GamesOpen(r.id, r.b.games);
        if (r.b.demands != 0) revert IChannels.DemandsOpen(r.id, r.b.demands);
        if (r.b.leaves == 0) {
            Lives.checkAfter(uint256(r.b.committedAt) + r.p.challenge);
            return _finish(book, env, r, o, BatchState.Final, 0, 0);
        }
        // Whoever answered knew the seed.
        if (r.b.answered == 0 && r.mixOf(env) == 0) {
            Lives.checkAfter(r.seedBlock() + r.p.record);
            return _finish(book, env, r, o, BatchState.Failed, 0, r.b.amount);
        }
        Lives.checkAfter(r.disputeBy(o.exec));
        (uint256 fees, uint256 burned, uint256 returned) = _fees(r, o);
        if (burned != 0) book.accounts.credit(Lives.BURN, burned);
        _finish(book, env, r, o, BatchState.Final, fees + burned, returned);
    }

    /// @notice See `IChannels.settle`.
    function settle(Book storage book, Env memory env, Offer calldata o, uint32 number, uint256[] calldata indices)
        external
    {
        Run memory r = Batches.load(book, env, o, number);
        if (r.b.state != BatchState.Convicted) r.checkState(BatchState.Final);
        for (uint256 i; i < indices.length; ++i) {
            _settle(book, r, o, indices[i]);
        }
    }

    /// @notice See `IChannels.refund`.
    function refund(Book storage book, Env memory env, Offer calldata o, uint32 number, LineProof[] calldata lines)
        external
    {
        Run memory r = Batches.load(book, env, o, number);
        if (r.b.state < BatchState.Final) r.checkState(BatchState.Convicted);
        Payback memory payback = book.paybacks[r.id];
        for (uint256 i; i < lines.length; ++i) {
            _refund(book, r, o, payback, lines[i]);
        }
        uint256 refunded = r.b.refunded + lines.length;
        book.batches[r.id].refunded = refunded.toUint16();
        if (refunded == r.b.lines && payback.left != 0) {
            // INVARIANT 5: what the divisions left over goes out as well.
            book.accounts.credit(Lives.BURN, payback.left);
            payback.left = 0;
        }
        book.paybacks[r.id] = payback;
    }

    /// @notice See `IChannels.refundBond`.
    function refundBond(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32 task,
        uint256 gameId
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Convicted);
        Challenge memory c = book.challenges[task][gameId];
        bool idle = book.disputes[task].batch == r.id && c.challenger != address(0) && !c.ended && c.slot == 0;
        if (!idle) revert IMarket.UnknownChallenge(task, gameId);
        book.challenges[task][gameId].ended = true;
        uint256 bond = Terms.bond(r.p, o.maxPrice);
        // INVARIANT 43: who helps to open more games than can be answered pays for it, where nothing was proven.
        uint256 burned = c.crowded && book.judgments[r.id].crowded ? bond / 2 : 0;
        book.accounts.release(c.challenger, bond, bond - burned);
        if (burned != 0) book.accounts.credit(Lives.BURN, burned);
        emit IChannels.BondReturned(r.id, gameId, c.challenger, bond - burned);
    }

    /// @notice See `IChannels.slash`.
    function slash(Book storage book, Env memory env, Offer calldata o, uint32 number) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Convicted);
        Judgment storage j = book.judgments[r.id];
        // INVARIANT 13: a conviction slashes its operator, once.
        if (j.slashed) revert IMarket.AlreadySlashed(r.id);
        j.slashed = true;
        if (block.number > r.lockEnd(o)) return;
        // INVARIANT 15: what stops the core undoes this call, and nothing else waits for it.
        (uint256 slashId, uint256 shares) = env.serviceManager.slash(r.id, o.operator, _beneficiaries(book, r, j));
        emit IChannels.Slashed(r.id, slashId, shares, msg.sender);
    }

    /// @dev Ends a batch without a conviction: of its amount, `kept` goes to verifiers and `returned` to clients; the
    /// operator has the rest, its collateral, and the bonds that it won.
    function _finish(
        Book storage book,
        Env memory env,
        Run memory r,
        Offer calldata o,
        BatchState state,
        uint256 kept,
        uint256 returned
    ) private {
        uint256 held = Shares.collateral(r.p, o.maxPrice, o.verifiers);
        uint256 won = uint256(r.b.won) * Terms.bondShare(r.p, o.maxPrice);
        book.batches[r.id].state = state;
        if (returned != 0) book.paybacks[r.id] = Payback(returned.toUint96(), returned.toUint96());
        // INVARIANT 5: amount and collateral go out to the wei.
        uint256 paid = held + r.b.amount + won - kept - returned;
        book.accounts.release(o.operator, held, paid);
        emit IChannels.Closed(r.id, state, paid, returned);
        env.serviceManager.unlock(r.id, o.operator);
    }

    /// @dev Of a Final batch: what its verifiers are paid; of the shares that nobody checked, what is burned (the operator's
    /// part, so that it gains nothing by it) and what goes back to clients (what they paid for it).
    function _fees(Run memory r, Offer calldata o)
        private
        pure
        returns (uint256 fees, uint256 burned, uint256 returned)
    {
        uint256 fee = r.fee(o);
        uint256 count = r.shares(o);
        for (uint256 g; g < count; ++g) {
            if (r.agreed(g) != 0) fees += fee;
            else (burned, returned) = (burned + r.p.gChk, returned + fee - r.p.gChk);
        }
    }

    function _settle(Book storage book, Run memory r, Offer calldata o, uint256 index) private {
        Answer storage a = book.answers[r.id][index];
        (address verifier, Stage stage) = (a.operator, a.stage);
        bool held = stage == Stage.Hidden || stage == Stage.Agreed || stage == Stage.Differed;
        if (!held) revert IMarket.NothingToSettle(r.id, index + 1);
        a.stage = Stage.Paid;
        uint256 bond = Terms.bond(r.p, o.maxPrice);
        uint256 payout = bond;
        if (r.b.state == BatchState.Final) {
            if (stage == Stage.Agreed) {
                bool lowest = r.agreed(index / Limits.DRAWS) == index % Limits.DRAWS + 1;
                if (lowest) payout += r.fee(o);
            } else {
                payout = 0;
                // A verifier that differed and proved nothing cost the operator the proof of its share.
                uint256 won = stage == Stage.Differed ? Terms.bondShare(r.p, o.maxPrice) : 0;
                if (won != 0) book.accounts.credit(o.operator, won);
                book.accounts.credit(Lives.BURN, bond - won);
            }
        }
        book.accounts.release(verifier, bond, payout);
        emit IChannels.Settled(r.id, index + 1, verifier, payout);
    }

    function _refund(
        Book storage book,
        Run memory r,
        Offer calldata o,
        Payback memory payback,
        LineProof calldata proof
    ) private {
        Lines.check(book, r, proof);
        (uint256 word, uint256 bit) = (proof.position / 256, 2 ** (proof.position % 256));
        uint256 bits = book.refunds[r.id][word];
        // INVARIANT 2: a line is paid back once.
        if (bits & bit != 0) revert IChannels.AlreadyRefunded(r.id, proof.position);
        book.refunds[r.id][word] = bits | bit;
        Line calldata line = proof.line;
        uint256 amount =
            payback.returned == r.b.amount ? line.amount : uint256(line.amount) * payback.returned / r.b.amount;
        // SAFETY: the parts of `returned` are at most `returned`.
        // forge-lint: disable-next-line(unsafe-typecast)
        payback.left -= uint96(amount);
        Channel storage c = book.channels[line.channel];
        // Whoever concluded a channel said that all its calls are worth what they cost.
        address receiver = c.state == ChannelState.Concluded ? o.operator : c.client;
        book.accounts.credit(receiver, amount);
        emit IChannels.Refunded(r.id, line.channel, receiver, amount);
    }

    /// @dev Who shares half of the slash: who differed, else the winner unless its game was crowded, else nobody.
    function _beneficiaries(Book storage book, Run memory r, Judgment memory j)
        private
        view
        returns (address[] memory list)
    {
        uint256 n;
        list = new address[](r.b.answered.count());
        for (uint64 rest = r.b.answered; rest != 0; rest &= rest - 1) {
            Answer memory a = book.answers[r.id][rest.lowest()];
            // One that differed and lost its game differed all the same: another one was right.
            if (a.stage == Stage.Differed || a.stage == Stage.Lost) list[n++] = a.operator;
        }
        if (n == 0 && !j.crowded) {
            (list, n) = (new address[](1), 1);
            list[0] = j.winner;
        }
        assembly ("memory-safe") {
            mstore(list, n)
        }
    }
}
