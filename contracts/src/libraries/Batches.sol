// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Batch, BatchState, Channel, Judgment, Offer, Payback, Pool, Roots, ShareDemand} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {IDisputeGame} from "../interfaces/IDisputeGame.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Answer, Challenge, ITaskMarket, Opening, Parameters} from "../interfaces/ITaskMarket.sol";
import {Shares} from "./Shares.sol";
import {Signed} from "./Signed.sol";
import {Terms} from "./Terms.sol";

/// @dev The call that a game is about, and what its end needs of the offer.
struct Dispute {
    bytes32 batch;
    bytes32 outputsRoot;
    address operator;
    uint96 maxPrice;
    uint32 exec;
    uint8 verifiers;
}

struct CallDemand {
    address by;
    uint32 since; // zero: there is none, or it was shown
    uint8 leaves;
    bool known; // the same demand is made once
}

/// @dev All that channels store.
struct Book {
    mapping(address owner => Account) accounts;
    mapping(bytes32 pool => Pool) pools;
    mapping(bytes32 channel => Channel) channels;
    mapping(bytes32 batch => Batch) batches;
    mapping(bytes32 batch => Roots) roots;
    mapping(bytes32 batch => Payback) paybacks;
    mapping(bytes32 batch => mapping(uint256 index => Answer)) answers;
    mapping(bytes32 batch => mapping(uint256 share => ShareDemand)) shareDemands;
    mapping(bytes32 batch => mapping(bytes32 demand => CallDemand)) demands;
    mapping(bytes32 task => Dispute) disputes;
    mapping(bytes32 task => mapping(uint256 gameId => Challenge)) challenges;
    mapping(bytes32 batch => Judgment) judgments;
    mapping(bytes32 batch => mapping(uint256 word => uint256 bits)) refunds;
    mapping(bytes32 batch => uint64 set) disputing; // answers that differed and whose bond is in a game
}

/// @dev What a message stands on.
struct Env {
    ITaskMarket market;
    IServiceManager serviceManager;
    IDisputeGame game;
    bytes32 domain;
    Parameters p;
}

/// @dev A batch as a message finds it.
struct Run {
    Parameters p;
    bytes32 pool;
    bytes32 id;
    Batch b;
}

/// @title Where a batch stands, and until when
library Batches {
    function load(Book storage book, Env memory env, Offer calldata offer, uint32 number)
        internal
        view
        returns (Run memory r)
    {
        r.p = env.p;
        r.pool = Signed.poolOf(env.domain, offer);
        r.id = idOf(r.pool, number);
        r.b = book.batches[r.id];
    }

    function idOf(bytes32 pool, uint32 number) internal pure returns (bytes32) {
        return keccak256(abi.encode(pool, number));
    }

    /// @notice The oldest batch of a pool that can still be committed: batches whose time for it is over do not hold up those
    /// after them.
    function next(Book storage book, bytes32 pool, uint256 epoch) internal view returns (uint32 number) {
        Pool memory stored = book.pools[pool];
        for (number = stored.next; number <= stored.begun; ++number) {
            if (block.number <= uint256(book.batches[idOf(pool, number)].begunAt) + epoch) break;
        }
    }

    // ---- Times ----

    function commitBy(Run memory r, Offer calldata offer) internal pure returns (uint256) {
        return uint256(r.b.begunAt) + offer.epoch;
    }

    function seedBlock(Run memory r) internal pure returns (uint256) {
        return Terms.seedBlock(r.p, r.b.committedAt);
    }

    function checkBy(Run memory r, uint256 exec) internal pure returns (uint256) {
        return seedBlock(r) + Terms.checkWindow(r.p, exec);
    }

    function revealBy(Run memory r, uint256 exec) internal pure returns (uint256) {
        return seedBlock(r) + Terms.revealWindow(r.p, exec);
    }

    /// @notice The last block in which answers are opened.
    function answersBy(Run memory r, uint256 exec) internal pure returns (uint256) {
        return (r.b.revealedAt != 0 ? r.b.revealedAt : revealBy(r, exec)) + r.p.reveal;
    }

    /// @notice The last block in which a call is demanded.
    function demandBy(Run memory r, uint256 exec) internal pure returns (uint256) {
        return uint256(r.b.committedAt) + Shares.window(r.p, exec);
    }

    /// @notice The last block in which a call is disputed.
    function disputeBy(Run memory r, uint256 exec) internal pure returns (uint256 by) {
        by = demandBy(r, exec);
        if (r.b.shownUntil > by) by = r.b.shownUntil;
    }

    function lockEnd(Run memory r, Offer calldata offer) internal pure returns (uint256) {
        return r.b.begunAt + Shares.lifetime(r.p, offer.exec, offer.epoch);
    }

    // ---- What is known ----

    function mixOf(Run memory r, Env memory env) internal view returns (bytes32) {
        return env.market.seedOf(seedBlock(r));
    }

    function shares(Run memory r, Offer calldata offer) internal pure returns (uint256) {
        return Shares.shares(r.b.leaves, offer.verifiers);
    }

    function checked(Run memory r, Offer calldata offer) internal pure returns (uint256) {
        return Shares.checked(r.b.leaves, offer.checkRate, offer.verifiers);
    }

    /// @notice v: what the verifier of each share is paid.
    function fee(Run memory r, Offer calldata offer) internal pure returns (uint256) {
        return Shares.fee(r.p, offer.checkPrice, checked(r, offer), shares(r, offer));
    }

    /// @notice One more than the lowest candidate of a share that agrees; zero: there is none.
    function agreed(Run memory r, uint256 share) internal pure returns (uint256) {
        return r.b.agreed >> 8 * share & 0xff;
    }

    // ---- Checks ----

    function checkState(Run memory r, BatchState expected) internal pure {
        if (r.b.state != expected) revert IChannels.WrongBatchState(r.id, expected, r.b.state);
    }

    /// @notice Reverts unless the caller speaks for the offer's operator: itself, its signer, or the offer's.
    function checkSpeaker(Env memory env, Offer calldata offer) internal view {
        if (msg.sender != offer.operator && msg.sender != offer.signer) {
            (address signer,) = env.serviceManager.signerOf(offer.operator);
            if (msg.sender != signer) revert IMarket.NotTheSigner(msg.sender, signer);
        }
    }

    /// @notice Reverts unless `opening` opens the commitment of the operator's answer.
    function checkOpening(Run memory r, address operator, Opening calldata o, bytes32 commitment) internal view {
        if (o.task != r.id) revert IMarket.WrongTask(r.id, o.task);
        bytes32 opened =
            keccak256(abi.encode(block.chainid, address(this), o.task, operator, o.slot, o.outputsRoot, o.salt));
        if (opened != commitment) revert IMarket.WrongOpening(o.task, commitment, opened);
    }
}
