// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {ITaskMarket, Leaf, LeafProof, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {DTypes} from "./DTypes.sol";
import {Limits} from "./Limits.sol";
import {Ledger, Demand, Life, Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";

/// @title Leaves of a result that its client demands, shown under its outputs root
library Demands {
    using Accounts for mapping(address => Account);
    using Lives for Life;
    using SafeCast for uint256;

    /// @notice See `ITaskMarket.demand`.
    function demand(Ledger storage ledger, Parameters memory p, bytes32 uuid, address client, Leaf[] calldata leaves)
        external
    {
        Life memory l = Lives.load(ledger, p, uuid);
        if (msg.sender != client) revert IMarket.NotTheClient(msg.sender, client);
        l.checkState(State.Revealed);
        Lives.checkUntil(l.challengeBy());
        if (l.has(Lives.DEMANDED | Lives.SHOWN)) revert ITaskMarket.AlreadyDemanded(l.uuid);
        uint256 count = leaves.length;
        if (count == 0 || count > Limits.LEAVES) revert IMarket.WrongLeaves(count, Limits.LEAVES);

        ledger.accounts.debit(msg.sender, count * l.p.gChunk);
        ledger.tallies[l.uuid].flags = l.tally.flags | Lives.DEMANDED;
        // SAFETY: `count` was bounded above.
        // forge-lint: disable-next-line(unsafe-typecast)
        ledger.demands[l.uuid] = Demand(keccak256(abi.encode(leaves)), block.number.toUint32(), uint8(count));
        emit ITaskMarket.Demanded(l.uuid, leaves, Lives.showBy(ledger, l));
    }

    /// @notice See `ITaskMarket.show`.
    function show(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Leaf[] calldata leaves,
        LeafProof[] calldata proofs
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        l.checkState(State.Revealed);
        if (!l.has(Lives.DEMANDED) || ledger.demands[l.uuid].leaves != keccak256(abi.encode(leaves))) {
            revert IMarket.NotDemanded(l.uuid);
        }
        Lives.checkUntil(Lives.showBy(ledger, l));
        if (leaves.length != proofs.length) revert IMarket.LengthMismatch(leaves.length, proofs.length);
        bytes32 claim = ledger.claims[l.uuid];
        for (uint256 i; i < leaves.length; ++i) {
            (bytes32 root, bool exists) = rootOf(leaves[i], proofs[i]);
            if (root == 0 || root != claim) revert IMarket.WrongLeaf(i);
            emit ITaskMarket.Shown(l.uuid, i, exists ? proofs[i].data : proofs[i].data[:0]);
        }
        ledger.tallies[l.uuid].flags = l.tally.flags ^ (Lives.DEMANDED | Lives.SHOWN);
    }

    /// @notice The outputs root that a proof leads to, zero if its leaf has a wrong length, and whether there is such a leaf under it.
    function rootOf(Leaf calldata leaf, LeafProof calldata proof) internal pure returns (bytes32 root, bool exists) {
        bytes32 bindings;
        (bindings, exists) = bindingsRootOf(leaf, proof);
        if (bindings == 0) return (0, exists);
        root = leaf.state ? Merkle.outputsRoot(proof.other, bindings) : Merkle.outputsRoot(bindings, proof.other);
    }

    /// @notice The bindings root that a proof leads to, zero if its leaf has a wrong length, and whether there is such a leaf.
    function bindingsRootOf(Leaf calldata leaf, LeafProof calldata proof)
        internal
        pure
        returns (bytes32 bindings, bool exists)
    {
        bytes32 tree = proof.tree;
        if (leaf.tensor < proof.count) {
            exists = leaf.index < leavesOf(proof.dtype, proof.elements);
            if (exists) {
                if (proof.data.length != Merkle.LEAF) return (0, true);
                tree = Merkle.climb(Merkle.leafHash(proof.data, 0), leaf.index, proof.path);
            }
            bytes32 tensor = Merkle.tensorRootOf(proof.dtype, proof.elements, tree);
            // SAFETY: a longer name has no binding, and leads to another root.
            // forge-lint: disable-next-line(unsafe-typecast)
            bytes memory name = abi.encodePacked(uint8(proof.name.length), proof.name);
            tree = Merkle.climb(Merkle.bindingHash(name, tensor), leaf.tensor, proof.binding);
        }
        bindings = Merkle.bindingsRootOf(proof.count, tree);
    }

    /// @notice How many leaves a tensor has; none if there is no such type.
    function leavesOf(uint8 dtype, uint256 elements) internal pure returns (uint256) {
        if (dtype > 31) return 0;
        uint256 size = (uint256(uint8(DTypes.WIDTHS[dtype])) + 7) / 8;
        return (elements * size + Merkle.LEAF - 1) / Merkle.LEAF;
    }
}
