// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Channels} from "../../src/Channels.sol";
import {CallReceipt, Deal, Line, Offer, Voucher} from "../../src/interfaces/Deals.sol";
import {Order} from "../../src/interfaces/Tasks.sol";
import {Frontier} from "../../src/libraries/Frontier.sol";
import {Lines} from "../../src/libraries/Lines.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Orders} from "../../src/libraries/Orders.sol";
import {Shares} from "../../src/libraries/Shares.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title What Python says and signs of channels is what the contract hashes
contract ChannelVectorsTest is MarketFixture {
    using Frontier for Frontier.Stack;

    string private json;
    /// @dev The contract's code at the address of the vectors.
    Channels private elsewhere;

    function setUp() public override {
        super.setUp();
        json = vm.readFile("../tests/vectors/channels.json");
        vm.chainId(vm.parseJsonUint(json, ".domain.chainId"));
        address contract_ = vm.parseJsonAddress(json, ".domain.verifyingContract");
        vm.etch(contract_, address(channels).code);
        elsewhere = Channels(contract_);
    }

    function test_PoolOf_IsTheOffersTypedHash() public view {
        bytes32 pool = vm.parseJsonBytes32(json, ".pool");
        assertEq(elsewhere.poolOf(_offer()), pool);
        uint32 number = uint32(_uint(".batch.number"));
        assertEq(elsewhere.batchOf(pool, number), _word(".batch.name"), "batch");
    }

    function test_ChannelOf_IsTheDealsTypedHash() public view {
        bytes32 channel = elsewhere.channelOf(_deal());
        assertEq(channel, _word(".channel"));
        assertEq(_signerOf(channel, ".deal"), _offer().signer, "signature");
    }

    function test_HashOf_IsThatOfVouchersAndReceipts() public view {
        bytes32 voucher = elsewhere.hashOf(_voucher());
        assertEq(voucher, _word(".voucher.hash"), "voucher");
        assertEq(_signerOf(voucher, ".voucher"), _deal().payer, "payer");
        bytes32 receipt = elsewhere.hashOf(_receipt());
        assertEq(receipt, _word(".receipt.hash"), "receipt");
        assertEq(_signerOf(receipt, ".receipt"), _offer().signer, "signer");
    }

    function test_AnOrderIsThatOfItsReceipt() public view {
        (, string memory name, string memory version,,,,) = elsewhere.eip712Domain();
        bytes32 separator = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                block.chainid,
                elsewhere
            )
        );
        bytes32 task = keccak256(abi.encodePacked(hex"1901", separator, this.hashOf(_ordered())));
        assertEq(task, _receipt().order);
    }

    function hashOf(Order calldata order) external pure returns (bytes32) {
        return Orders.hash(order);
    }

    function test_ALeafIsThatOfItsReceipt() public view {
        CallReceipt memory r = _receipt();
        bytes32 leaf = Lines.leafHash(r.channel, r.index, r.order, Lines.resultOf(r.outputsRoot));
        assertEq(leaf, _words(".leaves")[r.index], "leaf");
        assertEq(Merkle.climb(leaf, r.index, _words(".call.path")), _line().root, "path");
    }

    function test_AFrontierGrowsByItsTail() public view {
        Voucher memory v = _voucher();
        Frontier.Stack memory s = this.start(v.acked, _words(".frontier"), v.count - v.acked);
        assertEq(s.root(), v.root, "acknowledged");
        for (uint64 i = v.acked; i < v.count; ++i) {
            string memory at = string.concat(".tail[", vm.toString(i - v.acked), "]");
            bytes32 order = _word(string.concat(at, ".order"));
            s.append(Lines.leafHash(v.channel, i, order, _word(string.concat(at, ".result"))));
        }
        assertEq(s.root(), _line().root, "with its tail");
        assertEq(s.root(), Merkle.treeRoot(_words(".leaves")), "as a tree");
    }

    function start(uint256 leaves, bytes32[] calldata nodes, uint256 more)
        external
        pure
        returns (Frontier.Stack memory)
    {
        return Frontier.from(leaves, nodes, more);
    }

    function test_ALineLeadsToItsBatch() public view {
        bytes32 hash = Lines.lineHash(_line());
        assertEq(hash, _word(".line.hash"), "line");
        bytes32 root = Merkle.climb(hash, _uint(".lines.position"), _words(".lines.path"));
        assertEq(root, _word(".lines.root"), "path");
    }

    function test_AProgramLeadsToThoseOfItsOffer() public view {
        bytes32 entry = Lines.entryHash(_word(".programs.program"), uint32(_uint(".programs.repeat")));
        bytes32 tree = Merkle.climb(entry, _uint(".programs.position"), _words(".programs.path"));
        bytes32 root = Lines.programsRootOf(uint32(_uint(".programs.count")), tree);
        assertEq(root, _word(".programs.root"), "root");
        assertEq(root, _offer().programs, "offer");
    }

    function test_PartsLeadToTheirShare() public view {
        bytes32[] memory roots = _words(".share.outputsRoots");
        bytes32 root = _word(".share.root");
        for (uint256 q; q * Shares.PART < roots.length; ++q) {
            uint256 rest = roots.length - q * Shares.PART;
            bytes32[] memory nodes = new bytes32[](rest < Shares.PART ? rest : Shares.PART);
            for (uint256 i; i < nodes.length; ++i) {
                nodes[i] = roots[q * Shares.PART + i];
            }
            bytes32[] memory path = _words(string.concat(".share.paths[", vm.toString(q), "]"));
            assertEq(Merkle.climb(Merkle.fold(nodes, Shares.PART_LEVELS, 0), q, path), root, "part");
        }
        assertEq(Merkle.treeRoot(roots), root, "as a tree"); // which folds them where they are
    }

    function _offer() private view returns (Offer memory o) {
        o.operator = vm.parseJsonAddress(json, ".offer.operator");
        o.signer = vm.parseJsonAddress(json, ".offer.signer");
        o.nonce = _uint(".offer.nonce");
        o.maxPrice = _uint(".offer.maxPrice");
        o.checkPrice = _uint(".offer.checkPrice");
        o.most = _uint(".offer.most");
        o.riskEach = _uint(".offer.riskEach");
        o.riskAll = _uint(".offer.riskAll");
        o.checkRate = uint64(_uint(".offer.checkRate"));
        o.verifiers = uint8(_uint(".offer.verifiers"));
        o.exec = uint32(_uint(".offer.exec"));
        o.epoch = uint32(_uint(".offer.epoch"));
        o.tail = uint8(_uint(".offer.tail"));
        o.programs = _word(".offer.programs");
    }

    function _deal() private view returns (Deal memory d) {
        d.pool = _word(".deal.pool");
        d.client = vm.parseJsonAddress(json, ".deal.client");
        d.payer = vm.parseJsonAddress(json, ".deal.payer");
        d.nonce = _uint(".deal.nonce");
        d.most = _uint(".deal.most");
        d.valueAtRisk = _uint(".deal.valueAtRisk");
        d.openBy = uint64(_uint(".deal.openBy"));
    }

    function _voucher() private view returns (Voucher memory v) {
        v.channel = _word(".voucher.channel");
        v.count = uint64(_uint(".voucher.count"));
        v.amount = _uint(".voucher.amount");
        v.acked = uint64(_uint(".voucher.acked"));
        v.root = _word(".voucher.root");
    }

    function _receipt() private view returns (CallReceipt memory r) {
        r.channel = _word(".receipt.channel");
        r.index = uint64(_uint(".receipt.index"));
        r.order = _word(".receipt.order");
        r.outputsRoot = _word(".receipt.outputsRoot");
        r.number = uint32(_uint(".receipt.number"));
    }

    function _ordered() private view returns (Order memory o) {
        o.client = vm.parseJsonAddress(json, ".order.client");
        o.nonce = _uint(".order.nonce");
        o.semantics = uint16(_uint(".order.semantics"));
        o.program = _word(".order.program");
        o.inputs = _word(".order.inputs");
        o.weights = _word(".order.weights");
        o.states = _word(".order.states");
        o.variables = _word(".order.variables");
        o.repeat = uint32(_uint(".order.repeat"));
        o.operators = _word(".order.operators");
    }

    function _line() private view returns (Line memory l) {
        l.channel = _word(".line.channel");
        l.root = _word(".line.root");
        l.first = uint64(_uint(".line.first"));
        l.count = uint64(_uint(".line.count"));
        l.offset = uint64(_uint(".line.offset"));
        l.amount = uint128(_uint(".line.amount"));
    }

    function _signerOf(bytes32 digest, string memory of_) private view returns (address) {
        return ECDSA.recover(digest, vm.parseJsonBytes(json, string.concat(of_, ".signature")));
    }

    function _uint(string memory field) private view returns (uint256) {
        return vm.parseJsonUint(json, field);
    }

    function _word(string memory field) private view returns (bytes32) {
        return vm.parseJsonBytes32(json, field);
    }

    function _words(string memory field) private view returns (bytes32[] memory) {
        return vm.parseJsonBytes32Array(json, field);
    }
}
