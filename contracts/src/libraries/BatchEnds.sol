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
import {Batches, ChannelLedger, Env, BatchLife} from "./Batches.sol";
import {Bits} from "./Bits.sol";
import {Limits} from "./Limits.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Shares} from "./Shares.sol";
import {Terms} from "./Terms.sol";

/// @title How a batch ends, and who gets what of it
library BatchEnds {
    using Accounts for mapping(address => Account);
    using Batches for BatchLife;
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
        ChannelLedger storage ledger,
        Parameters memory p,
        bytes32 id,
        Liability memory t,
        Breach breach,
        address winner,
        bool crowded
    ) internal {
        Batch storage b = ledger.batches[id];
        uint256 held = Shares.collateral(p, t.maxPrice, t.verifiers);
        uint256 reward = Terms.reward(p, t.maxPrice);
        // INVARIANT 2: every way into a terminal state starts from another state, and no way leads out.
        b.state = BatchState.Convicted;
        // INVARIANT 55: the clients of all lines have back what they paid, or a liar keeps what the others paid.
        if (b.amount != 0) ledger.paybacks[id] = Payback(b.amount, b.amount);
        ledger.judgments[id] = Judgment(winner, breach, false, crowded);
        ledger.accounts.release(t.operator, held, 0);
        ledger.accounts.credit(winner, reward);
        ledger.accounts.credit(Lives.BURN, held - reward + uint256(b.won) * Terms.bondShare(p, t.maxPrice));
        emit IChannels.Convicted(id, breach, winner);
    }

    /// @notice `convict` by a message that has the offer. A batch that was not committed yet takes its pool with it.
    function convict(ChannelLedger storage ledger, BatchLife memory l, Offer calldata o, Breach breach, address winner)
        internal
    {
        if (l.b.state == BatchState.Begun) ledger.pools[l.pool].over = true;
        convict(ledger, l.p, l.id, Liability(o.operator, o.maxPrice, o.verifiers), breach, winner, false);
    }

    /// @notice See `IChannels.close`.
    function close(ChannelLedger storage ledger, Env memory env, Offer calldata o, uint32 number) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        if (l.b.state == BatchState.Begun) {
            Lives.checkAfter(l.commitBy(o) + l.p.challenge);
            return _finish(ledger, env, l, o, BatchState.Lapsed, 0, 0);
        }
        l.checkState(BatchState.Committed);
        // INVARIANT 3: nobody is paid while a game or a demand can still end in a conviction.
        if (l.b.games != 0) revert IMarket.GamesOpen(l.id, l.b.games);
        if (l.b.demands != 0) revert IChannels.DemandsOpen(l.id, l.b.demands);
        if (l.b.leaves == 0) {
            Lives.checkAfter(uint256(l.b.committedAt) + l.p.challenge);
            return _finish(ledger, env, l, o, BatchState.Final, 0, 0);
        }
        // Whoever answered knew the seed.
        if (l.b.answered == 0 && l.mixOf(env) == 0) {
            Lives.checkAfter(l.seedBlock() + l.p.record);
            return _finish(ledger, env, l, o, BatchState.Failed, 0, l.b.amount);
        }
        Lives.checkAfter(l.disputeBy(o.exec));
        (uint256 fees, uint256 burned, uint256 returned) = _fees(l, o);
        if (burned != 0) ledger.accounts.credit(Lives.BURN, burned);
        _finish(ledger, env, l, o, BatchState.Final, fees + burned, returned);
    }

    /// @notice See `IChannels.settle`.
    function settle(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        uint256[] calldata indices
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        if (l.b.state != BatchState.Convicted) l.checkState(BatchState.Final);
        for (uint256 i; i < indices.length; ++i) {
            _settle(ledger, l, o, indices[i]);
        }
    }

    /// @notice See `IChannels.refund`.
    function refund(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        LineProof[] calldata lines
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        if (l.b.state < BatchState.Final) l.checkState(BatchState.Convicted);
        Payback memory payback = ledger.paybacks[l.id];
        for (uint256 i; i < lines.length; ++i) {
            _refund(ledger, l, o, payback, lines[i]);
        }
        uint256 refunded = l.b.refunded + lines.length;
        ledger.batches[l.id].refunded = refunded.toUint16();
        if (refunded == l.b.lines && payback.left != 0) {
            // INVARIANT 5: what the divisions left over goes out as well.
            ledger.accounts.credit(Lives.BURN, payback.left);
            payback.left = 0;
        }
        ledger.paybacks[l.id] = payback;
    }

    /// @notice See `IChannels.refundBond`.
    function refundBond(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32 task,
        uint256 gameId
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Convicted);
        Challenge memory c = ledger.challenges[task][gameId];
        bool idle = ledger.disputes[task].batch == l.id && c.challenger != address(0) && !c.ended && c.slot == 0;
        if (!idle) revert IMarket.UnknownChallenge(task, gameId);
        ledger.challenges[task][gameId].ended = true;
        uint256 bond = Terms.bond(l.p, o.maxPrice);
        // INVARIANT 43: who helps to open more games than can be answered pays for it, where nothing was proven.
        uint256 burned = c.crowded && ledger.judgments[l.id].crowded ? bond / 2 : 0;
        ledger.accounts.release(c.challenger, bond, bond - burned);
        if (burned != 0) ledger.accounts.credit(Lives.BURN, burned);
        emit IChannels.BondReturned(l.id, gameId, c.challenger, bond - burned);
    }

    /// @notice See `IChannels.slash`.
    function slash(ChannelLedger storage ledger, Env memory env, Offer calldata o, uint32 number) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Convicted);
        Judgment storage j = ledger.judgments[l.id];
        // INVARIANT 13: a conviction slashes its operator, once.
        if (j.slashed) revert IMarket.AlreadySlashed(l.id);
        j.slashed = true;
        if (block.number > l.lockEnd(o)) return;
        // INVARIANT 15: what stops the core undoes this call, and nothing else waits for it.
        (uint256 slashId, uint256 shares) = env.serviceManager.slash(l.id, o.operator, _beneficiaries(ledger, l, j));
        emit IChannels.Slashed(l.id, slashId, shares, msg.sender);
    }

    /// @dev Ends a batch without a conviction: of its amount, `kept` goes to verifiers and `returned` to clients; the
    /// operator has the rest, its collateral, and the bonds that it won.
    function _finish(
        ChannelLedger storage ledger,
        Env memory env,
        BatchLife memory l,
        Offer calldata o,
        BatchState state,
        uint256 kept,
        uint256 returned
    ) private {
        uint256 held = Shares.collateral(l.p, o.maxPrice, o.verifiers);
        uint256 won = uint256(l.b.won) * Terms.bondShare(l.p, o.maxPrice);
        ledger.batches[l.id].state = state;
        if (returned != 0) ledger.paybacks[l.id] = Payback(returned.toUint96(), returned.toUint96());
        // INVARIANT 5: amount and collateral go out to the wei.
        uint256 paid = held + l.b.amount + won - kept - returned;
        ledger.accounts.release(o.operator, held, paid);
        emit IChannels.Closed(l.id, state, paid, returned);
        env.serviceManager.unlock(l.id, o.operator);
    }

    /// @dev Of a Final batch: what its verifiers are paid; of the shares that nobody checked, what is burned (the operator's
    /// part, so that it gains nothing by it) and what goes back to clients (what they paid for it).
    function _fees(BatchLife memory l, Offer calldata o)
        private
        pure
        returns (uint256 fees, uint256 burned, uint256 returned)
    {
        uint256 fee = l.fee(o);
        uint256 count = l.shares(o);
        for (uint256 g; g < count; ++g) {
            if (l.agreed(g) != 0) fees += fee;
            else (burned, returned) = (burned + l.p.gChk, returned + fee - l.p.gChk);
        }
    }

    function _settle(ChannelLedger storage ledger, BatchLife memory l, Offer calldata o, uint256 index) private {
        Answer storage a = ledger.answers[l.id][index];
        (address verifier, Stage stage) = (a.operator, a.stage);
        bool held = stage == Stage.Hidden || stage == Stage.Agreed || stage == Stage.Differed;
        if (!held) revert IMarket.NothingToSettle(l.id, index + 1);
        // INVARIANT 56: whoever differed has its part of the slash, whether its bond is back before that or after.
        a.stage = stage == Stage.Differed ? Stage.Lost : Stage.Paid;
        uint256 bond = Terms.bond(l.p, o.maxPrice);
        uint256 payout = bond;
        if (l.b.state == BatchState.Final) {
            if (stage == Stage.Agreed) {
                bool lowest = l.agreed(index / Limits.DRAWS) == index % Limits.DRAWS + 1;
                if (lowest) payout += l.fee(o);
            } else {
                payout = 0;
                // A verifier that differed and proved nothing cost the operator the proof of its share.
                uint256 won = stage == Stage.Differed ? Terms.bondShare(l.p, o.maxPrice) : 0;
                if (won != 0) ledger.accounts.credit(o.operator, won);
                ledger.accounts.credit(Lives.BURN, bond - won);
            }
        }
        ledger.accounts.release(verifier, bond, payout);
        emit IChannels.Settled(l.id, index + 1, verifier, payout);
    }

    function _refund(
        ChannelLedger storage ledger,
        BatchLife memory l,
        Offer calldata o,
        Payback memory payback,
        LineProof calldata proof
    ) private {
        Lines.check(ledger, l, proof);
        (uint256 word, uint256 bit) = (proof.position / 256, 2 ** (proof.position % 256));
        uint256 bits = ledger.refunds[l.id][word];
        // INVARIANT 2: a line is paid back once.
        if (bits & bit != 0) revert IChannels.AlreadyRefunded(l.id, proof.position);
        ledger.refunds[l.id][word] = bits | bit;
        Line calldata line = proof.line;
        uint256 amount =
            payback.returned == l.b.amount ? line.amount : uint256(line.amount) * payback.returned / l.b.amount;
        // SAFETY: the parts of `returned` are at most `returned`.
        // forge-lint: disable-next-line(unsafe-typecast)
        payback.left -= uint96(amount);
        Channel storage c = ledger.channels[line.channel];
        // Whoever concluded a channel said that all its calls are worth what they cost.
        address receiver = c.state == ChannelState.Concluded ? o.operator : c.client;
        ledger.accounts.credit(receiver, amount);
        emit IChannels.Refunded(l.id, line.channel, receiver, amount);
    }

    /// @dev Who shares half of the slash: who differed, else the winner unless its game was crowded, else nobody.
    function _beneficiaries(ChannelLedger storage ledger, BatchLife memory l, Judgment memory j)
        private
        view
        returns (address[] memory list)
    {
        uint256 n;
        list = new address[](l.b.answered.count());
        for (uint64 rest = l.b.answered; rest != 0; rest &= rest - 1) {
            Answer memory a = ledger.answers[l.id][rest.lowest()];
            // One that differed differed all the same when it lost its game, or has its bond back.
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
