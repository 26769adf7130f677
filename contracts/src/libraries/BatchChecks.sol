// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Batch, BatchState, Breach, CallProof, Line, Offer, Part, ShareDemand} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Opening, Stage} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {BatchEnds} from "./BatchEnds.sol";
import {Batches, Book, Env, Run} from "./Batches.sol";
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
    using Batches for Run;
    using Bits for uint64;
    using SafeCast for uint256;

    /// @notice See `IChannels.answer`; the caller is the operator's signer, under its cap.
    function answer(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Answer memory a,
        uint256 index,
        uint256 cap
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        if (index >= Limits.DRAWS * r.shares(o)) revert IMarket.UnknownSlot(r.id, index + 1);
        bytes32 mix = _mix(r, env);
        Lives.checkUntil(r.checkBy(o.exec));
        _checkSeat(book, env, r, o, a.operator, mix, index);
        // INVARIANT 41: a seat without stake says nothing.
        env.serviceManager.checkSeats(a.operator);

        book.answers[r.id][index] = a;
        book.batches[r.id].answered = r.b.answered.with(index);
        book.accounts.hold(a.operator, Terms.bond(r.p, o.maxPrice), cap);
        emit IChannels.Answered(r.id, index, a.operator, a.claim);
    }

    /// @notice See `IChannels.revealRoots`.
    function revealRoots(Book storage book, Env memory env, Offer calldata o, uint32 number, bytes32[] calldata roots)
        external
    {
        Batches.checkSpeaker(env, o);
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        if (r.b.revealedAt != 0) revert IChannels.AlreadyRevealed(r.id);
        if (roots.length == 0 || roots.length != r.shares(o)) revert IChannels.WrongRoots(r.id, roots.length);
        // INVARIANT 22: no root is public until no answer can copy it.
        Lives.checkAfter(r.checkBy(o.exec));
        Lives.checkUntil(r.revealBy(o.exec));
        book.batches[r.id].revealedAt = block.number.toUint32();
        book.roots[r.id].shares = keccak256(abi.encode(roots));
        emit IChannels.RootsRevealed(r.id, roots);
    }

    /// @notice See `IChannels.reveal`.
    function reveal(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32[] calldata roots,
        Opening calldata opening
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        _checkRoots(book, r, roots);
        if (r.b.revealedAt == 0) Lives.checkAfter(r.revealBy(o.exec));
        Lives.checkUntil(r.answersBy(o.exec));
        if (opening.slot == 0) revert IMarket.UnknownSlot(r.id, 0);
        uint256 index = opening.slot - 1;
        Answer memory a = book.answers[r.id][index];
        if (a.stage == Stage.None) revert IMarket.UnknownSlot(r.id, opening.slot);
        if (a.stage != Stage.Hidden) revert IMarket.AlreadyOpened(r.id, opening.slot);
        r.checkOpening(a.operator, opening, a.claim);

        uint256 share = index / Limits.DRAWS;
        bool agrees = r.b.revealedAt == 0 || roots[share] == opening.outputsRoot;
        Batch storage b = book.batches[r.id];
        book.answers[r.id][index].stage = agrees ? Stage.Agreed : Stage.Differed;
        if (agrees) {
            _agree(b, r, share, index % Limits.DRAWS + 1);
        } else {
            ShareDemand storage d = book.shareDemands[r.id][share];
            if (d.since == 0) {
                // SAFETY: slots go up to 64.
                // forge-lint: disable-next-line(unsafe-typecast)
                (d.since, d.slot) = (block.number.toUint32(), uint8(opening.slot));
                b.demands = r.b.demands + 1;
            }
        }
        emit IChannels.Revealed(r.id, opening.slot, opening.outputsRoot, agrees);
    }

    /// @notice See `IChannels.justify`.
    function justify(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        bytes32[] calldata roots,
        Part calldata part
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        _checkRoots(book, r, roots);
        ShareDemand memory d = book.shareDemands[r.id][part.share];
        if (d.since == 0 || d.justifiedAt != 0) revert IChannels.NoShareDemand(r.id, part.share);
        Lives.checkUntil(d.since + Terms.clock(r.p, o.exec));
        for (uint256 i; i < part.lines.length; ++i) {
            Lines.check(book, r, part.lines[i]);
        }
        uint256 parts = _checkPart(r, o, r.mixOf(env), roots[part.share], part);
        emit IChannels.Justified(r.id, part.share, part.number, part.calls);

        // SAFETY: a share has four parts at most.
        // forge-lint: disable-next-line(unsafe-typecast)
        d.parts |= uint8(2 ** part.number);
        if (d.parts == 2 ** parts - 1) {
            d.justifiedAt = block.number.toUint32();
            Batch storage b = book.batches[r.id];
            b.demands = r.b.demands - 1;
            // INVARIANT 49: who differed has time to dispute what it sees now.
            b.shownUntil = (block.number + r.p.reveal).toUint32();
        }
        book.shareDemands[r.id][part.share] = d;
    }

    /// @notice See `IChannels.denounceShare`.
    function denounceShare(Book storage book, Env memory env, Offer calldata o, uint32 number, uint256 share) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        ShareDemand memory d = book.shareDemands[r.id][share];
        if (d.since == 0 || d.justifiedAt != 0) revert IChannels.NoShareDemand(r.id, share);
        Lives.checkAfter(d.since + Terms.clock(r.p, o.exec));
        BatchEnds.convict(book, r, o, Breach.Demand, book.answers[r.id][d.slot - 1].operator);
    }

    /// @dev The lowest candidate of a share that agrees is paid.
    function _agree(Batch storage b, Run memory r, uint256 share, uint256 candidate) private {
        uint256 lowest = r.agreed(share);
        if (lowest != 0 && lowest <= candidate) return;
        // SAFETY: there are sixteen candidates.
        // forge-lint: disable-next-line(unsafe-typecast)
        b.agreed = uint32(r.b.agreed ^ (lowest ^ candidate) << 8 * share);
    }

    /// @dev Reverts unless the calls are the part's, in the order of their draw, and lead to the share's root.
    /// @return parts of the share
    function _checkPart(Run memory r, Offer calldata o, bytes32 mix, bytes32 root, Part calldata part)
        private
        pure
        returns (uint256 parts)
    {
        uint256 count = Shares.callsOf(mix, r.id, r.b.leaves, o.checkRate, o.verifiers, part.share);
        parts = (count + Shares.PART - 1) / Shares.PART;
        if (part.number >= parts) revert IChannels.WrongShare(r.id, part.share, part.number);
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
            bool drawn = Lines.numberOf(line, call.index) == _drawn(r, o, mix, part.share, first + i);
            if (!drawn) revert IChannels.WrongShare(r.id, part.share, part.number);
            nodes[i] = call.outputsRoot;
        }
        bytes32 node = parts == 1 ? Merkle.treeRoot(nodes) : Merkle.fold(nodes, Shares.PART_LEVELS, 0);
        bool leads = Merkle.climb(node, part.number, part.path) == root;
        if (!leads || part.path.length != Merkle.depth(parts)) {
            revert IChannels.WrongShare(r.id, part.share, part.number);
        }
    }

    /// @dev The number of the call at a row of a share.
    function _drawn(Run memory r, Offer calldata o, bytes32 mix, uint256 share, uint256 row)
        private
        pure
        returns (uint256)
    {
        uint256 draw = Shares.drawOf(mix, r.id, r.shares(o), share, row);
        return Shares.callOf(mix, r.id, r.b.leaves, r.checked(o), draw);
    }

    function _mix(Run memory r, Env memory env) private view returns (bytes32 mix) {
        if (r.b.leaves == 0) revert IChannels.NothingToCheck(r.id);
        mix = r.mixOf(env);
        if (mix == 0) revert IMarket.NoSeed(r.seedBlock());
    }

    function _checkRoots(Book storage book, Run memory r, bytes32[] calldata roots) private view {
        bool right = r.b.revealedAt == 0 ? roots.length == 0 : keccak256(abi.encode(roots)) == book.roots[r.id].shares;
        if (!right) revert IChannels.WrongRoots(r.id, roots.length);
    }

    function _checkSeat(
        Book storage book,
        Env memory env,
        Run memory r,
        Offer calldata o,
        address operator,
        bytes32 mix,
        uint256 index
    ) private view {
        uint256 seat = Terms.seatOf(mix, r.id, index, r.b.seats);
        (address holder, uint256 since) = env.serviceManager.seatAt(seat);
        // INVARIANT 21: the operator never answers its own batch, nor anybody twice.
        bool drawn = holder == operator && since < r.b.committedAt && operator != o.operator;
        if (!drawn) revert IMarket.NotYourSeat(operator, seat);
        for (uint64 rest = r.b.answered; rest != 0; rest &= rest - 1) {
            if (book.answers[r.id][rest.lowest()].operator == operator) revert IMarket.AlreadyAnswered(r.id, operator);
        }
    }
}
