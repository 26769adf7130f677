// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Batch, BatchState, Breach, CallProof, Line, Offer, Part, ShareDemand} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Opening, Stage} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {BatchEnds} from "./BatchEnds.sol";
import {Batches, ChannelLedger, Env, BatchLife} from "./Batches.sol";
import {Bits} from "./Bits.sol";
import {Limits} from "./Limits.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Shares} from "./Shares.sol";
import {Terms} from "./Terms.sol";

/// @title What drawn verifiers and the operator say of the shares of a batch
library BatchChecks {
    using Accounts for mapping(address => Account);
    using Batches for BatchLife;
    using Bits for uint64;
    using SafeCast for uint256;

    /// @notice See `IChannels.answer`; the caller is the operator's signer, under its cap.
    function answer(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Answer memory a,
        uint256 index,
        uint256 cap
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        if (index >= Limits.DRAWS * l.shares(o)) revert IMarket.UnknownSlot(l.id, index + 1);
        bytes32 mix = _mix(l, env);
        Lives.checkUntil(l.checkBy(o.exec));
        _checkSeat(ledger, env, l, o, a.operator, mix, index);
        // INVARIANT 41: a seat without stake says nothing.
        env.serviceManager.checkSeats(a.operator);

        ledger.answers[l.id][index] = a;
        ledger.batches[l.id].answered = l.b.answered.with(index);
        ledger.accounts.hold(a.operator, Terms.bond(l.p, o.maxPrice), cap);
        emit IChannels.Answered(l.id, index, a.operator, a.claim);
    }

    /// @notice See `IChannels.revealRoots`.
    function revealRoots(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32[] calldata roots
    ) external {
        Batches.checkOperator(env, o);
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        if (l.b.revealedAt != 0) revert IChannels.AlreadyRevealed(l.id);
        if (roots.length == 0 || roots.length != l.shares(o)) revert IChannels.WrongRoots(l.id, roots.length);
        // INVARIANT 22: no root is public until no answer can copy it.
        Lives.checkAfter(l.checkBy(o.exec));
        Lives.checkUntil(l.revealBy(o.exec));
        ledger.batches[l.id].revealedAt = block.number.toUint32();
        ledger.roots[l.id].shares = keccak256(abi.encode(roots));
        emit IChannels.RootsRevealed(l.id, roots);
    }

    /// @notice See `IChannels.reveal`.
    function reveal(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32[] calldata roots,
        Opening calldata opening
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        _checkRoots(ledger, l, roots);
        if (l.b.revealedAt == 0) Lives.checkAfter(l.revealBy(o.exec));
        Lives.checkUntil(l.answersBy(o.exec));
        if (opening.slot == 0) revert IMarket.UnknownSlot(l.id, 0);
        uint256 index = opening.slot - 1;
        Answer memory a = ledger.answers[l.id][index];
        if (a.stage == Stage.None) revert IMarket.UnknownSlot(l.id, opening.slot);
        if (a.stage != Stage.Hidden) revert IMarket.AlreadyOpened(l.id, opening.slot);
        l.checkOpening(a.operator, opening, a.claim);

        uint256 share = index / Limits.DRAWS;
        bool agrees = l.b.revealedAt == 0 || roots[share] == opening.outputsRoot;
        Batch storage b = ledger.batches[l.id];
        ledger.answers[l.id][index].stage = agrees ? Stage.Agreed : Stage.Differed;
        if (agrees) {
            _agree(b, l, share, index % Limits.DRAWS + 1);
        } else {
            ShareDemand storage d = ledger.shareDemands[l.id][share];
            if (d.since == 0) {
                // SAFETY: slots go up to 64.
                // forge-lint: disable-next-line(unsafe-typecast)
                (d.since, d.slot) = (block.number.toUint32(), uint8(opening.slot));
                b.demands = l.b.demands + 1;
            }
        }
        emit IChannels.Revealed(l.id, opening.slot, opening.outputsRoot, agrees);
    }

    /// @notice See `IChannels.justify`.
    function justify(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32[] calldata roots,
        Part calldata part
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        _checkRoots(ledger, l, roots);
        ShareDemand memory d = ledger.shareDemands[l.id][part.share];
        if (d.since == 0 || d.justifiedAt != 0) revert IChannels.NoShareDemand(l.id, part.share);
        Lives.checkUntil(d.since + Terms.clock(l.p, o.exec));
        for (uint256 i; i < part.lines.length; ++i) {
            Lines.check(ledger, l, part.lines[i]);
        }
        uint256 parts = _checkPart(l, o, l.mixOf(env), roots[part.share], part);
        emit IChannels.Justified(l.id, part.share, part.number, part.calls);

        // SAFETY: a share has four parts at most.
        // forge-lint: disable-next-line(unsafe-typecast)
        d.parts |= uint8(2 ** part.number);
        if (d.parts == 2 ** parts - 1) {
            d.justifiedAt = block.number.toUint32();
            Batch storage b = ledger.batches[l.id];
            b.demands = l.b.demands - 1;
            // INVARIANT 49: who differed has time to dispute what it sees now.
            b.shownUntil = (block.number + l.p.reveal).toUint32();
        }
        ledger.shareDemands[l.id][part.share] = d;
    }

    /// @notice See `IChannels.denounceShare`.
    function denounceShare(ChannelLedger storage ledger, Env memory env, Offer calldata o, uint32 number, uint256 share)
        external
    {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        ShareDemand memory d = ledger.shareDemands[l.id][share];
        if (d.since == 0 || d.justifiedAt != 0) revert IChannels.NoShareDemand(l.id, share);
        Lives.checkAfter(d.since + Terms.clock(l.p, o.exec));
        BatchEnds.convict(ledger, l, o, Breach.Demand, ledger.answers[l.id][d.slot - 1].operator);
    }

    /// @dev The lowest candidate of a share that agrees is paid.
    function _agree(Batch storage b, BatchLife memory l, uint256 share, uint256 candidate) private {
        uint256 lowest = l.agreed(share);
        if (lowest != 0 && lowest <= candidate) return;
        // SAFETY: there are sixteen candidates.
        // forge-lint: disable-next-line(unsafe-typecast)
        b.agreed = uint32(l.b.agreed ^ (lowest ^ candidate) << 8 * share);
    }

    /// @dev Reverts unless the calls are the part's, in the order of their draw, and lead to the share's root.
    /// @return parts of the share
    function _checkPart(BatchLife memory l, Offer calldata o, bytes32 mix, bytes32 root, Part calldata part)
        private
        pure
        returns (uint256 parts)
    {
        uint256 count = Shares.callsOf(mix, l.id, l.b.leaves, o.checkRate, o.verifiers, part.share);
        parts = (count + Shares.PART - 1) / Shares.PART;
        if (part.number >= parts) revert IChannels.WrongShare(l.id, part.share, part.number);
        uint256 first = part.number * Shares.PART;
        uint256 expected = part.number + 1 < parts ? Shares.PART : count - first;
        if (part.calls.length != expected || part.at.length != expected) {
            revert IMarket.LengthMismatch(expected, part.calls.length);
        }
        bytes32[] memory nodes = new bytes32[](expected);
        for (uint256 i; i < expected; ++i) {
            Line calldata line = part.lines[part.at[i]].line;
            CallProof calldata call = part.calls[i];
            Lines.check(line, call);
            // INVARIANT 51: the draw says which calls a share has, and nobody else.
            bool drawn = Lines.numberOf(line, call.index) == _drawn(l, o, mix, part.share, first + i);
            if (!drawn) revert IChannels.WrongShare(l.id, part.share, part.number);
            nodes[i] = call.outputsRoot;
        }
        bytes32 node = parts == 1 ? Merkle.treeRoot(nodes) : Merkle.fold(nodes, Shares.PART_LEVELS, 0);
        bool leads = Merkle.climb(node, part.number, part.path) == root;
        if (!leads || part.path.length != Merkle.depth(parts)) {
            revert IChannels.WrongShare(l.id, part.share, part.number);
        }
    }

    /// @dev The number of the call at a row of a share.
    function _drawn(BatchLife memory l, Offer calldata o, bytes32 mix, uint256 share, uint256 row)
        private
        pure
        returns (uint256)
    {
        uint256 draw = Shares.drawOf(mix, l.id, l.shares(o), share, row);
        return Shares.callOf(mix, l.id, l.b.leaves, l.checked(o), draw);
    }

    function _mix(BatchLife memory l, Env memory env) private view returns (bytes32 mix) {
        if (l.b.leaves == 0) revert IChannels.NothingToCheck(l.id);
        mix = l.mixOf(env);
        if (mix == 0) revert IMarket.NoSeed(l.seedBlock());
    }

    function _checkRoots(ChannelLedger storage ledger, BatchLife memory l, bytes32[] calldata roots) private view {
        bool right = l.b.revealedAt == 0 ? roots.length == 0 : keccak256(abi.encode(roots)) == ledger.roots[l.id].shares;
        if (!right) revert IChannels.WrongRoots(l.id, roots.length);
    }

    function _checkSeat(
        ChannelLedger storage ledger,
        Env memory env,
        BatchLife memory l,
        Offer calldata o,
        address operator,
        bytes32 mix,
        uint256 index
    ) private view {
        uint256 seat = Terms.seatOf(mix, l.id, index, l.b.seats);
        (address holder, uint256 since) = env.serviceManager.seatAt(seat);
        // INVARIANT 21: the operator never answers its own batch, nor anybody twice.
        bool drawn = holder == operator && since < l.b.committedAt && operator != o.operator;
        if (!drawn) revert IMarket.NotYourSeat(operator, seat);
        for (uint64 rest = l.b.answered; rest != 0; rest &= rest - 1) {
            if (ledger.answers[l.id][rest.lowest()].operator == operator) {
                revert IMarket.AlreadyAnswered(l.id, operator);
            }
        }
    }
}
