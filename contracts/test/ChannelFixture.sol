// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {
    BatchState,
    CallProof,
    CallReceipt,
    Channel,
    Deal,
    Line,
    LineProof,
    Offer,
    Part,
    Place,
    Sheet,
    Tail,
    Voucher
} from "../src/interfaces/Deals.sol";
import {Position} from "../src/interfaces/IDisputeGame.sol";
import {LeafProof, Opening, Order} from "../src/interfaces/Tasks.sol";
import {Frontier} from "../src/libraries/Frontier.sol";
import {Lines} from "../src/libraries/Lines.sol";
import {Merkle} from "../src/libraries/Merkle.sol";
import {Shares} from "../src/libraries/Shares.sol";
import {Terms} from "../src/libraries/Terms.sol";
import {MarketFixture} from "./MarketFixture.sol";
import {TestHeaders} from "./TestHeaders.sol";

/// @title Channels of one pool: calls as an honest operator would serve and commit them, and short forms of the messages
/// @dev What off-chain parties remember is in storage here: each channel's calls, each batch's lines.
abstract contract ChannelFixture is MarketFixture {
    uint256 internal constant PRICE = 0.0001 ether;

    Offer internal offer;
    bytes32 internal pool;
    address internal receiptSigner;
    uint256 internal receiptKey;
    address internal payer;
    uint256 internal payerKey;
    uint64 internal nextDeal;

    mapping(bytes32 channel => bytes32[]) internal orders; // hashes of the orders that were served
    mapping(bytes32 channel => bytes32[]) internal results; // outputs roots
    mapping(bytes32 channel => bytes32[]) internal leaves;
    mapping(bytes32 batch => Line[]) internal lines;

    function setUp() public virtual override {
        super.setUp();
        (receiptSigner, receiptKey) = makeAddrAndKey("receipts");
        (payer, payerKey) = makeAddrAndKey("payer");
        address[4] memory all = [operator, rival, verifier, client];
        for (uint256 i; i < all.length; ++i) {
            _prepayChannels(all[i], 100 ether);
        }
        _stakeMore(1_000 ether);
        offer = _offer();
        pool = _register(offer);
    }

    function _offer() internal view virtual returns (Offer memory o) {
        o.operator = operator;
        o.signer = receiptSigner;
        o.maxPrice = PRICE;
        o.checkPrice = PRICE / 2;
        o.most = 10 ether;
        o.checkRate = 0.2e18;
        o.verifiers = 1;
        o.exec = 10;
        o.epoch = 50;
        o.tail = 8;
        o.programs = _programs();
    }

    /// @dev The only program, repeated at most twice.
    function _programs() internal pure returns (bytes32) {
        bytes32[] memory entries = new bytes32[](1);
        entries[0] = Lines.entryHash(Merkle.programRootOf(HEADER, RECORDS), 2);
        return Lines.programsRootOf(1, Merkle.treeRoot(entries));
    }

    function _prepayChannels(address account, uint256 amount) internal {
        token.mint(address(this), amount);
        token.approve(address(channels), amount);
        channels.deposit(account, amount);
    }

    // ---- Pools and channels ----

    function _register(Offer memory o) internal returns (bytes32) {
        vm.prank(o.operator);
        channels.offer(o);
        return channels.poolOf(o);
    }

    function _begin() internal returns (uint32) {
        vm.prank(signer);
        channels.begin(offer);
        return channels.poolAt(pool).begun;
    }

    function _deal() internal returns (Deal memory deal) {
        deal = Deal(pool, client, payer, ++nextDeal, 1 ether, 0, uint64(block.number) + 10);
    }

    function _open(Deal memory deal, uint256 amount) internal returns (bytes32 channel) {
        channel = channels.channelOf(deal);
        bytes memory signature = _sign(receiptKey, channel);
        vm.prank(deal.client);
        channels.open(offer, deal, signature, amount);
    }

    /// @dev A pool with a batch begun, and an open channel.
    function _opened() internal returns (Deal memory deal, bytes32 channel, uint32 number) {
        number = _begin();
        deal = _deal();
        channel = _open(deal, 1 ether);
    }

    // ---- Calls ----

    function _orderOf(bytes32 channel, uint64 index) internal view returns (Order memory order) {
        order.client = payer;
        order.nonce = uint256(keccak256(abi.encode("nonce", channel, index))) << 64 | index;
        order.semantics = 1;
        order.program = Merkle.programRootOf(HEADER, RECORDS);
        order.inputs = _inputsOf(index);
        order.repeat = 1;
        order.operators = channel;
    }

    /// @dev Inputs of one tensor "x" of 256 elements of four bytes.
    function _input(uint64 index) internal pure returns (LeafProof memory proof) {
        bytes memory data = new bytes(Merkle.LEAF);
        data[0] = bytes1(uint8(index));
        proof.count = 1;
        proof.name = "x";
        (proof.dtype, proof.elements) = (10, 256);
        proof.data = data;
    }

    function _inputsOf(uint64 index) internal pure returns (bytes32) {
        LeafProof memory proof = _input(index);
        bytes32 tensor = Merkle.tensorRootOf(proof.dtype, proof.elements, Merkle.leafHash(proof.data, 0));
        return Merkle.bindingsRootOf(1, Merkle.bindingHash(abi.encodePacked(uint8(1), proof.name), tensor));
    }

    function _resultOf(uint64 index) internal pure returns (bytes32) {
        return keccak256(abi.encode("outputs root", index));
    }

    /// @dev The next call of a channel, with its right result.
    function _call(bytes32 channel) internal {
        _call(channel, _resultOf(uint64(leaves[channel].length)));
    }

    function _call(bytes32 channel, bytes32 outputsRoot) internal {
        uint64 index = uint64(leaves[channel].length);
        bytes32 order = channels.taskOf(_orderOf(channel, index));
        orders[channel].push(order);
        results[channel].push(outputsRoot);
        leaves[channel].push(Lines.leafHash(channel, index, order, Lines.resultOf(outputsRoot)));
    }

    function _calls(bytes32 channel, uint256 count) internal {
        for (uint256 i; i < count; ++i) {
            _call(channel);
        }
    }

    function _receipt(bytes32 channel, uint64 index, uint32 number) internal view returns (CallReceipt memory) {
        return CallReceipt(channel, index, orders[channel][index], results[channel][index], number);
    }

    function _sign(CallReceipt memory receipt) internal view returns (bytes memory) {
        return _sign(receiptKey, channels.hashOf(receipt));
    }

    // ---- Commits ----

    /// @dev What the channel's calls cost so far at `PRICE`, all but `tail` of them acknowledged.
    function _sheet(Deal memory deal, uint256 tail) internal view returns (Sheet memory sheet) {
        bytes32 channel = channels.channelOf(deal);
        uint256 count = leaves[channel].length;
        sheet.deal = deal;
        (sheet.count, sheet.acked) = (uint64(count), uint64(count - tail));
        sheet.amount = count * PRICE;
        sheet.root = _rootOf(channel, sheet.acked);
        if (tail != 0) sheet.frontier = _frontierOf(channel, sheet.acked);
        sheet.tail = new Tail[](tail);
        for (uint256 i; i < tail; ++i) {
            uint256 at = sheet.acked + i;
            sheet.tail[i] = Tail(orders[channel][at], Lines.resultOf(results[channel][at]));
        }
        _signSheet(sheet);
    }

    function _signSheet(Sheet memory sheet) internal view {
        Voucher memory v = Voucher(channels.channelOf(sheet.deal), sheet.count, sheet.amount, sheet.acked, sheet.root);
        sheet.signature = _sign(payerKey, channels.hashOf(v));
    }

    function _one(Sheet memory sheet) internal pure returns (Sheet[] memory sheets) {
        sheets = new Sheet[](1);
        sheets[0] = sheet;
    }

    function _commit(uint32 number, Sheet[] memory sheets) internal returns (bytes32 batch) {
        batch = channels.batchOf(pool, number);
        _remember(batch, sheets);
        vm.prank(signer);
        channels.commit(offer, number, sheets);
    }

    /// @dev The lines that a commit of these sheets makes.
    function _remember(bytes32 batch, Sheet[] memory sheets) internal {
        uint64 offset;
        for (uint256 i; i < sheets.length; ++i) {
            Sheet memory s = sheets[i];
            bytes32 channel = channels.channelOf(s.deal);
            Channel memory c = channels.channelAt(channel);
            uint128 amount = uint128(s.amount - c.paid);
            lines[batch].push(Line(channel, _rootOf(channel, s.count), c.count, s.count - c.count, offset, amount));
            offset += s.count - c.count;
        }
    }

    /// @dev A committed batch of one channel with so many calls.
    function _committed(uint256 count) internal returns (Deal memory deal, bytes32 channel, bytes32 batch) {
        uint32 number;
        (deal, channel, number) = _opened();
        _calls(channel, count);
        batch = _commit(number, _one(_sheet(deal, 0)));
    }

    function _seedBatch(bytes32 batch) internal returns (bytes32 mix) {
        mix = keccak256(abi.encode("mix of", batch));
        _seedWith(channels.seedBlockOf(batch), mix);
    }

    // ---- Trees ----

    function _rootOf(bytes32 channel, uint256 count) internal view returns (bytes32) {
        return Merkle.treeRoot(_first(leaves[channel], count));
    }

    function _first(bytes32[] memory all, uint256 count) internal pure returns (bytes32[] memory some) {
        some = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            some[i] = all[i];
        }
    }

    function _frontierOf(bytes32 channel, uint256 count) internal view returns (bytes32[] memory nodes) {
        nodes = new bytes32[](Frontier.count(count));
        (uint256 at, uint256 n) = (0, 0);
        for (uint256 size = 1 << 64; size != 0; size >>= 1) {
            if (count & size == 0) continue;
            bytes32[] memory part = new bytes32[](size);
            for (uint256 i; i < size; ++i) {
                part[i] = leaves[channel][at + i];
            }
            nodes[n++] = Merkle.treeRoot(part);
            at += size;
        }
    }

    function _path(bytes32[] memory nodes, uint256 index) internal pure returns (bytes32[] memory) {
        return _path(nodes, index, 0);
    }

    /// @dev Among nodes that stand `bottom` levels above the leaves.
    function _path(bytes32[] memory nodes, uint256 index, uint256 bottom)
        internal
        pure
        returns (bytes32[] memory path)
    {
        path = new bytes32[](Merkle.depth(nodes.length));
        bytes32 zero = Merkle.padding(bottom);
        for (uint256 level; level < path.length; ++level) {
            path[level] = index ^ 1 < nodes.length ? nodes[index ^ 1] : zero;
            bytes32[] memory above = new bytes32[]((nodes.length + 1) / 2);
            for (uint256 i; i < above.length; ++i) {
                above[i] = Merkle.node(nodes[2 * i], 2 * i + 1 < nodes.length ? nodes[2 * i + 1] : zero);
            }
            (nodes, zero, index) = (above, Merkle.node(zero, zero), index / 2);
        }
    }

    function _lineProof(bytes32 batch, uint32 position) internal view returns (LineProof memory) {
        bytes32[] memory hashes = new bytes32[](lines[batch].length);
        for (uint256 i; i < hashes.length; ++i) {
            hashes[i] = Lines.lineHash(lines[batch][i]);
        }
        return LineProof(lines[batch][position], position, _path(hashes, position));
    }

    function _proofs(bytes32 batch, uint32 position) internal view returns (LineProof[] memory proofs) {
        proofs = new LineProof[](1);
        proofs[0] = _lineProof(batch, position);
    }

    function _callProof(Line memory line, uint64 index) internal view returns (CallProof memory) {
        bytes32[] memory all = _first(leaves[line.channel], line.first + line.count);
        bytes32 channel = line.channel;
        return CallProof(index, orders[channel][index], results[channel][index], _path(all, index));
    }

    /// @dev `_callProof` in a call of its own, whose memory is free afterwards.
    function proofOf(Line memory line, uint64 index) external view returns (CallProof memory) {
        return _callProof(line, index);
    }

    /// @dev Of a line, counted from the channel's first call.
    function _place(bytes32 batch, uint32 position, uint64 index) internal view returns (Place memory) {
        LineProof memory line = _lineProof(batch, position);
        return Place(line, _callProof(line.line, index), _orderOf(line.line.channel, index));
    }

    // ---- Checks ----

    /// @dev The numbers of a share's calls, in their order.
    function _share(bytes32 batch, bytes32 mix, uint256 share) internal view returns (uint256[] memory numbers) {
        uint256 n = channels.batchAt(batch).leaves;
        numbers = new uint256[](Shares.callsOf(mix, batch, n, offer.checkRate, offer.verifiers, share));
        uint256 k = Shares.checked(n, offer.checkRate, offer.verifiers);
        for (uint256 row; row < numbers.length; ++row) {
            uint256 draw = Shares.drawOf(mix, batch, Shares.shares(n, offer.verifiers), share, row);
            numbers[row] = Shares.callOf(mix, batch, n, k, draw);
        }
    }

    /// @dev The line and the index of call `number` of a batch.
    function _find(bytes32 batch, uint256 number) internal view returns (uint32 position, uint64 index) {
        while (number >= lines[batch][position].offset + lines[batch][position].count) ++position;
        index = uint64(number) - lines[batch][position].offset + lines[batch][position].first;
    }

    /// @dev The root of a share whose results are those that were committed.
    function _shareRoot(bytes32 batch, bytes32 mix, uint256 share) internal view returns (bytes32) {
        uint256[] memory numbers = _share(batch, mix, share);
        bytes32[] memory roots = new bytes32[](numbers.length);
        for (uint256 i; i < numbers.length; ++i) {
            (uint32 position, uint64 index) = _find(batch, numbers[i]);
            roots[i] = results[lines[batch][position].channel][index];
        }
        return Merkle.treeRoot(roots);
    }

    function _shareRoots(bytes32 batch, bytes32 mix) internal view returns (bytes32[] memory roots) {
        roots = new bytes32[](Shares.shares(channels.batchAt(batch).leaves, offer.verifiers));
        for (uint256 g; g < roots.length; ++g) {
            roots[g] = _shareRoot(batch, mix, g);
        }
    }

    /// @dev An index of a share at which a seat of `who` is drawn.
    function _indexFor(bytes32 batch, bytes32 mix, address who, uint256 share) internal view returns (uint256) {
        uint256 seats = channels.batchAt(batch).seats;
        for (uint256 i = 16 * share; i < 16 * share + 16; ++i) {
            (address holder,) = manager.seatAt(Terms.seatOf(mix, batch, i, seats));
            if (holder == who) return i;
        }
        revert("no seat of this operator is drawn");
    }

    /// @dev Of a game about a call that is opened in this block.
    function _position(Place memory place, address challenger) internal view returns (Position memory position) {
        (position.task, position.executor, position.challenger) = (place.call.order, operator, challenger);
        position.since = uint32(block.number);
        position.executorLeft = position.challengerLeft = offer.exec + p.clock;
    }

    function _answerBatch(bytes32 batch, uint32 number, bytes32 mix, address who, uint256 share, bytes32 root)
        internal
        returns (uint256 index)
    {
        index = _indexFor(batch, mix, who, share);
        bytes32 commitment = keccak256(abi.encode(block.chainid, address(channels), batch, who, index + 1, root, SALT));
        vm.prank(_signerOf(who));
        channels.answer(who, offer, number, index, commitment);
    }

    function _revealRoots(uint32 number, bytes32[] memory roots) internal {
        (, uint256 checkBy,,,) = channels.windowsOf(offer, number);
        vm.roll(checkBy + 1);
        vm.prank(signer);
        channels.revealRoots(offer, number, roots);
    }

    function _openAnswer(bytes32 batch, uint32 number, bytes32[] memory roots, uint256 index, bytes32 root) internal {
        Opening memory o = Opening(batch, index + 1, root, SALT);
        vm.prank(anybody);
        channels.reveal(offer, number, roots, o);
    }

    /// @dev A part of a share, as an honest operator justifies it.
    function _part(bytes32 batch, bytes32 mix, uint256 share, uint256 number) internal view returns (Part memory part) {
        uint256[] memory numbers = _share(batch, mix, share);
        uint256 first = number * Shares.PART;
        uint256 count = numbers.length - first < Shares.PART ? numbers.length - first : Shares.PART;
        (part.share, part.number) = (share, number);
        part.lines = new LineProof[](lines[batch].length);
        for (uint32 i; i < part.lines.length; ++i) {
            part.lines[i] = _lineProof(batch, i);
        }
        (part.at, part.calls) = (new uint32[](count), new CallProof[](count));
        for (uint256 i; i < count; ++i) {
            (uint32 position, uint64 index) = _find(batch, numbers[first + i]);
            part.at[i] = position;
            part.calls[i] = this.proofOf(lines[batch][position], index);
        }
        part.path = _path(_partRoots(batch, numbers), number, Shares.PART_LEVELS);
    }

    function _partRoots(bytes32 batch, uint256[] memory numbers) internal view returns (bytes32[] memory roots) {
        uint256 parts = (numbers.length + Shares.PART - 1) / Shares.PART;
        roots = new bytes32[](parts);
        for (uint256 q; q < parts; ++q) {
            uint256 first = q * Shares.PART;
            uint256 count = numbers.length - first < Shares.PART ? numbers.length - first : Shares.PART;
            bytes32[] memory nodes = new bytes32[](count);
            for (uint256 i; i < count; ++i) {
                (uint32 position, uint64 index) = _find(batch, numbers[first + i]);
                nodes[i] = results[lines[batch][position].channel][index];
            }
            roots[q] = parts == 1 ? Merkle.treeRoot(nodes) : Merkle.fold(nodes, Shares.PART_LEVELS, 0);
        }
    }

    // ---- Ends ----

    function _passDisputes(uint32 number) internal {
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, number);
        vm.roll(disputeBy + 1);
    }

    function _closeBatch(uint32 number) internal {
        vm.prank(anybody);
        channels.close(offer, number);
    }

    function _settle(uint32 number, uint256 index) internal {
        uint256[] memory indices = new uint256[](1);
        indices[0] = index;
        vm.prank(anybody);
        channels.settle(offer, number, indices);
    }

    function _funds(address account) internal view returns (uint256) {
        return channels.accountOf(account).balance;
    }

    function _heldOf(address account) internal view returns (uint256) {
        return channels.accountOf(account).collateral;
    }

    function _assertBatch(bytes32 batch, BatchState expected) internal view {
        assertEq(uint8(channels.batchAt(batch).state), uint8(expected), "batch");
    }

    function _collateral() internal view returns (uint256) {
        return Shares.collateral(p, offer.maxPrice, offer.verifiers);
    }

    function _reward() internal view returns (uint256) {
        return Terms.reward(p, offer.maxPrice);
    }

    function _bond() internal view returns (uint256) {
        return Terms.bond(p, offer.maxPrice);
    }
}
