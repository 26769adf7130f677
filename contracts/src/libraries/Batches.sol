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
struct ChannelLedger {
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
struct BatchLife {
    Parameters p;
    bytes32 pool;
    bytes32 id;
    Batch b;
}

/// @title Where a batch stands, and until when
library Batches {
    function load(ChannelLedger storage ledger, Env memory env, Offer calldata offer, uint32 number)
        internal
        view
        returns (BatchLife memory l)
    {
        l.p = env.p;
        l.pool = Signed.poolOf(env.domain, offer);
        l.id = idOf(l.pool, number);
        l.b = ledger.batches[l.id];
    }

    function idOf(bytes32 pool, uint32 number) internal pure returns (bytes32) {
        return keccak256(abi.encode(pool, number));
    }

    /// @notice The oldest batch of a pool that can still be committed: batches whose time for it is over do not hold up those
    /// after them.
    function next(ChannelLedger storage ledger, bytes32 pool, uint256 epoch) internal view returns (uint32 number) {
        Pool memory stored = ledger.pools[pool];
        for (number = stored.next; number <= stored.begun; ++number) {
            if (block.number <= uint256(ledger.batches[idOf(pool, number)].begunAt) + epoch) break;
        }
    }

    // ---- Times ----

    function commitBy(BatchLife memory l, Offer calldata offer) internal pure returns (uint256) {
        return uint256(l.b.begunAt) + offer.epoch;
    }

    function seedBlock(BatchLife memory l) internal pure returns (uint256) {
        return Terms.seedBlock(l.p, l.b.committedAt);
    }

    function checkBy(BatchLife memory l, uint256 exec) internal pure returns (uint256) {
        return seedBlock(l) + Terms.checkWindow(l.p, exec);
    }

    function revealBy(BatchLife memory l, uint256 exec) internal pure returns (uint256) {
        return seedBlock(l) + Terms.revealWindow(l.p, exec);
    }

    /// @notice The last block in which answers are opened.
    function answersBy(BatchLife memory l, uint256 exec) internal pure returns (uint256) {
        return (l.b.revealedAt != 0 ? l.b.revealedAt : revealBy(l, exec)) + l.p.reveal;
    }

    /// @notice The last block in which a call is demanded.
    function demandBy(BatchLife memory l, uint256 exec) internal pure returns (uint256) {
        return uint256(l.b.committedAt) + Shares.window(l.p, exec);
    }

    /// @notice The last block in which a call is disputed.
    function disputeBy(BatchLife memory l, uint256 exec) internal pure returns (uint256 by) {
        by = demandBy(l, exec);
        if (l.b.shownUntil > by) by = l.b.shownUntil;
    }

    function lockEnd(BatchLife memory l, Offer calldata offer) internal pure returns (uint256) {
        return l.b.begunAt + Shares.lifetime(l.p, offer.exec, offer.epoch);
    }

    // ---- What is known ----

    function mixOf(BatchLife memory l, Env memory env) internal view returns (bytes32) {
        return env.market.seedOf(seedBlock(l));
    }

    function shares(BatchLife memory l, Offer calldata offer) internal pure returns (uint256) {
        return Shares.shares(l.b.leaves, offer.verifiers);
    }

    function checked(BatchLife memory l, Offer calldata offer) internal pure returns (uint256) {
        return Shares.checked(l.b.leaves, offer.checkRate, offer.verifiers);
    }

    /// @notice v: what the verifier of each share is paid.
    function fee(BatchLife memory l, Offer calldata offer) internal pure returns (uint256) {
        return Shares.fee(l.p, offer.checkPrice, checked(l, offer), shares(l, offer));
    }

    /// @notice One more than the lowest candidate of a share that agrees; zero: there is none.
    function agreed(BatchLife memory l, uint256 share) internal pure returns (uint256) {
        return l.b.agreed >> 8 * share & 0xff;
    }

    // ---- Checks ----

    function checkState(BatchLife memory l, BatchState expected) internal pure {
        if (l.b.state != expected) revert IChannels.WrongBatchState(l.id, expected, l.b.state);
    }

    /// @notice Reverts unless the caller speaks for the offer's operator: itself, its signer, or the offer's.
    function checkOperator(Env memory env, Offer calldata offer) internal view {
        if (msg.sender != offer.operator && msg.sender != offer.signer) {
            (address signer,) = env.serviceManager.signerOf(offer.operator);
            if (msg.sender != signer) revert IMarket.NotTheSigner(msg.sender, signer);
        }
    }

    /// @notice Reverts unless `opening` opens the commitment of the operator's answer.
    function checkOpening(BatchLife memory l, address operator, Opening calldata o, bytes32 commitment) internal view {
        if (o.task != l.id) revert IMarket.WrongTask(l.id, o.task);
        bytes32 opened =
            keccak256(abi.encode(block.chainid, address(this), o.task, operator, o.slot, o.outputsRoot, o.salt));
        if (opened != commitment) revert IMarket.WrongOpening(o.task, commitment, opened);
    }
}
