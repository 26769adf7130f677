// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {TaskMarket} from "../../src/TaskMarket.sol";
import {Admission, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title The names that Python computes are the names that the contracts compute
contract VectorsTest is MarketFixture {
    string private json;
    /// @dev The market's code at the address of the vectors.
    TaskMarket private elsewhere;
    Order private order;

    function setUp() public override {
        super.setUp();
        json = vm.readFile("../tests/vectors/order.json");
        vm.chainId(vm.parseJsonUint(json, ".domain.chainId"));
        address contract_ = vm.parseJsonAddress(json, ".domain.verifyingContract");
        vm.etch(contract_, address(market).code);
        elsewhere = TaskMarket(contract_);
        order = _read();
    }

    function test_TaskOf_IsTheOrdersTypedHash() public view {
        bytes32 task = vm.parseJsonBytes32(json, ".task");
        assertEq(elsewhere.taskOf(order), task, "task");
        address signedBy = ECDSA.recover(task, vm.parseJsonBytes(json, ".signature"));
        assertEq(signedBy, order.client, "signature");
        (, string memory name, string memory version,,,,) = elsewhere.eip712Domain();
        assertEq(name, vm.parseJsonString(json, ".domain.name"), "name");
        assertEq(version, vm.parseJsonString(json, ".domain.version"), "version");
    }

    /// @dev The plain twin of `taskOf`, for any order.
    function testFuzz_TaskOf_EqualsThePlainEncoding(Order memory any) public view {
        bytes32 typehash = keccak256(
            "Order(address client,uint256 nonce,uint16 semantics,bytes32 program,bytes32 inputs,bytes32 weights,bytes32 states,bytes32 variables,uint32 repeat,uint256 minPrice,uint256 maxPrice,uint64 rampStart,uint64 rampLength,uint256 checkFee,uint64 checkRate,uint8 verifiers,uint256 valueAtRisk,uint32 exec,uint64 acceptBy,bytes32 operators)"
        );
        bytes32 structHash = keccak256(abi.encode(typehash, any));
        bytes32 separator = vm.parseJsonBytes32(json, ".domainSeparator");
        assertEq(elsewhere.taskOf(any), keccak256(abi.encodePacked(hex"1901", separator, structHash)));
    }

    function test_OperatorsRoot_AdmitsEachOfItsListAndNobodyElse() public view {
        address[] memory sorted = vm.parseJsonAddressArray(json, ".operators.addresses");
        bytes32 root = vm.parseJsonBytes32(json, ".operators.root");
        Admission memory admission = _admission();
        for (uint256 i; i < sorted.length; ++i) {
            bool admitted = Merkle.admits(root, sorted[i], admission.index, admission.count, admission.path);
            assertEq(admitted, i == admission.index, "only the proven one");
        }
        address proven = sorted[admission.index];
        assertFalse(Merkle.admits(root, proven, admission.index ^ 1, admission.count, admission.path), "place");
        assertFalse(Merkle.admits(root, proven, admission.index, admission.count + 1, admission.path), "count");
        admission.path[2] ^= bytes32(uint256(1));
        assertFalse(Merkle.admits(root, proven, admission.index, admission.count, admission.path), "path");
    }

    /// @dev A node must not pass for a leaf, nor padding for an operator.
    function test_Admits_RefusesShorterPathsAndPadding() public view {
        bytes32 root = vm.parseJsonBytes32(json, ".operators.root");
        Admission memory admission = _admission();
        address proven = vm.parseJsonAddress(json, ".operators.admission.operator");
        bytes32[] memory shorter = new bytes32[](2);
        (shorter[0], shorter[1]) = (admission.path[0], admission.path[1]);
        assertFalse(Merkle.admits(root, proven, admission.index, 4, shorter), "shorter");
        assertFalse(Merkle.admits(root, proven, admission.index + 8, 5, admission.path), "beyond the tree");
        assertFalse(Merkle.admits(root, address(0), 7, 5, admission.path), "padding");
        assertFalse(Merkle.admits(root, proven, 0, 0, new bytes32[](0)), "nobody");
    }

    function test_Commitment_OpensInTheMarket() public {
        address executor = vm.parseJsonAddress(json, ".commit.operator");
        _join(executor, signer, 1 ether);
        order.valueAtRisk = 0; // needs more stake than the executor has
        _prepay(order.client, 1 ether);
        Opening memory opening = Opening(
            _post(order),
            vm.parseJsonUint(json, ".commit.slot"),
            vm.parseJsonBytes32(json, ".commit.outputsRoot"),
            vm.parseJsonBytes32(json, ".commit.salt")
        );
        bytes memory preimage = vm.parseJsonBytes(json, ".commit.preimage");
        assertEq(keccak256(preimage), vm.parseJsonBytes32(json, ".commit.commitment"), "commitment");
        // Market and task are the second and third word of the preimage.
        (address here, bytes32 task) = (address(market), opening.task);
        assembly ("memory-safe") {
            mstore(add(preimage, 0x40), here)
            mstore(add(preimage, 0x60), task)
        }
        vm.startPrank(signer);
        market.accept(executor, order, _admission());
        market.commit(executor, task, keccak256(preimage));
        vm.stopPrank();
        _seed(order, false);
        market.reveal(order, opening);
        _assertState(task, State.Revealed);
    }

    function _admission() private view returns (Admission memory) {
        return Admission(
            uint32(vm.parseJsonUint(json, ".operators.admission.index")),
            uint32(vm.parseJsonUint(json, ".operators.admission.count")),
            vm.parseJsonBytes32Array(json, ".operators.admission.path")
        );
    }

    function _read() private view returns (Order memory o) {
        o.client = vm.parseJsonAddress(json, ".order.client");
        o.nonce = _uint("nonce");
        o.semantics = uint16(_uint("semantics"));
        o.program = _root("program");
        o.inputs = _root("inputs");
        o.weights = _root("weights");
        o.states = _root("states");
        o.variables = _root("variables");
        o.repeat = uint32(_uint("repeat"));
        o.minPrice = _uint("minPrice");
        o.maxPrice = _uint("maxPrice");
        o.rampStart = uint64(_uint("rampStart"));
        o.rampLength = uint64(_uint("rampLength"));
        o.checkFee = _uint("checkFee");
        o.checkRate = uint64(_uint("checkRate"));
        o.verifiers = uint8(_uint("verifiers"));
        o.valueAtRisk = _uint("valueAtRisk");
        o.exec = uint32(_uint("exec"));
        o.acceptBy = uint64(_uint("acceptBy"));
        o.operators = _root("operators");
    }

    function _uint(string memory field) private view returns (uint256) {
        return vm.parseJsonUint(json, string.concat(".order.", field));
    }

    function _root(string memory field) private view returns (bytes32) {
        return vm.parseJsonBytes32(json, string.concat(".order.", field));
    }
}
