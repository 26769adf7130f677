// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Claim, IReferee, Shape} from "../interfaces/IReferee.sol";
import {Kernels} from "./Kernels.sol";
import {Merkle} from "./Merkle.sol";
import {Operands} from "./Operands.sol";
import {Reader} from "./Reader.sol";
import {Records} from "./Records.sol";

/// @title Whether records, variables and tensors are where a claim has them
/// @notice Mirrors Python's `eigentensor.tracing.proof`. Depth and number of every opening follow from lengths that the
/// program's header fixes, so that nothing but a leaf can stand for a leaf.
library Claims {
    using Reader for Reader.Cursor;
    using Kernels for Kernels.Kernel;

    uint256 private constant STATE = 3;
    uint256 private constant CONSTANT = 4;
    uint256 private constant NEW_STATE = 2;

    /// @dev `tree` is the root of the tree over records; zero until the first record is shown.
    struct Proof {
        Claim claim;
        Kernels.Kernel kernel;
        Reader.Cursor from;
        uint256 number;
        uint256 recordLevels;
        uint256 traceLevels;
        bytes32 tree;
    }

    /// @notice Proves the kernel of an executed call, and that `root` is its tensor root.
    function checkCall(Claim memory claim, uint256 number, bytes32 root, bytes memory data)
        internal
        pure
        returns (Shape memory shape)
    {
        Proof memory p;
        p.from.data = data;
        p.kernel = Kernels.read(p.from);
        _begin(p, claim, number);
        Kernels.Kernel memory k = p.kernel;
        uint256 body = k.bodyOf();
        uint256 bodies = k.programVariables + k.buffers;
        if (body >= k.bodies) revert IReferee.NotInProgram(bodies + body);
        _record(p, k.call, bodies + k.bodies + number % k.calls);
        _record(p, k.body.record, bodies + body);
        for (uint256 n; n < k.variables.length; ++n) {
            _variable(p, n);
        }
        _traced(p, root, number);
        p.from.end();
        (uint256 dtype, uint256 elements) = Records.parameter(k.body, 0);
        // A record has them in one byte and in eight.
        // forge-lint: disable-next-line(unsafe-typecast)
        return Shape(uint8(dtype), uint64(elements), Records.reductionDtypes(k.body), k.hash);
    }

    /// @notice The tensors that a step reads, by parameter, and where the openings of its loads begin in `data`.
    function checkWitness(Claim memory claim, uint256 number, bytes32 kernel, bytes memory data)
        internal
        pure
        returns (Kernels.Kernel memory k, Operands.Tensors memory tensors)
    {
        Proof memory p;
        p.from.data = data;
        k = p.kernel = Kernels.read(p.from);
        if (k.hash != kernel) revert IReferee.WrongKernel(k.hash, kernel);
        _begin(p, claim, number);
        uint256 parameters = k.body.parameters;
        tensors.roots = new bytes32[](parameters - 1);
        tensors.constants = new bytes[](parameters - 1);
        uint256 before;
        for (uint256 left = p.from.number(1); left != 0; --left) {
            uint256 parameter = p.from.number(1);
            if (parameter <= before || parameter >= parameters) revert Records.NoParameter(parameter);
            before = parameter;
            _tensor(p, tensors, parameter);
        }
        (tensors.openings, tensors.at) = (data, p.from.at);
    }

    /// @notice The outputs root that the trace has, given its tensor roots.
    function collected(Claim memory claim, bytes memory data) internal pure returns (bytes32) {
        Proof memory p = _atEnd(claim, data);
        Kernels.Kernel memory k = p.kernel;
        bytes[] memory records = new bytes[](k.results);
        bytes32[] memory leaves = new bytes32[](k.results);
        for (uint256 n; n < k.results; ++n) {
            records[n] = p.from.slice(p.from.number(2));
            leaves[n] = Merkle.recordHash(records[n]);
        }
        if (Merkle.programRootOf(k.header, _tail(p, leaves)) != claim.program) {
            revert IReferee.NotInProgram(k.records() - k.results);
        }
        uint256 states;
        for (uint256 n; n < k.results; ++n) {
            leaves[n] = _resultLeaf(p, records[n]);
            if (uint8(records[n][0]) == NEW_STATE) ++states;
        }
        p.from.end();
        return Merkle.outputsRoot(
            _bindings(leaves, 0, leaves.length - states), _bindings(leaves, leaves.length - states, leaves.length)
        );
    }

    /// @notice How many results the program has, whether one is a state, and its leaf among the results by name, given the
    /// trace's tensor root.
    function implied(Claim memory claim, uint256 number, bytes memory data)
        internal
        pure
        returns (uint256 results, bool isState, bytes32 leaf)
    {
        Proof memory p = _atEnd(claim, data);
        bytes memory record = _resultRecord(p, number);
        leaf = _resultLeaf(p, record);
        p.from.end();
        return (p.kernel.results, uint8(record[0]) == NEW_STATE, leaf);
    }

    /// @dev At the first call of the last iteration.
    function _atEnd(Claim memory claim, bytes memory data) private pure returns (Proof memory p) {
        p.from.data = data;
        p.kernel.readHeader(p.from.word());
        _begin(p, claim, claim.repeat * p.kernel.calls - p.kernel.calls);
    }

    function _resultRecord(Proof memory p, uint256 place) private pure returns (bytes memory record) {
        uint256 results = p.kernel.results;
        if (place >= results) revert IReferee.NotInProgram(place);
        record = p.from.slice(p.from.number(2));
        _record(p, record, p.kernel.records() - results + place);
    }

    /// @dev Where `p` is at the first call of the last iteration.
    function _resultLeaf(Proof memory p, bytes memory record) private pure returns (bytes32) {
        bytes32 root = p.from.word();
        _traced(p, root, p.number + _written(p.kernel, Records.little(record, 4, 4)));
        return Merkle.bindingHash(_nameOf(record), root);
    }

    function _begin(Proof memory p, Claim memory claim, uint256 number) private pure {
        uint256 executed = claim.repeat * p.kernel.calls;
        if (number >= executed) revert IReferee.NotInTrace(number);
        (p.claim, p.number) = (claim, number);
        p.recordLevels = Merkle.depth(p.kernel.records());
        p.traceLevels = Merkle.depth(executed + 1);
    }

    function _record(Proof memory p, bytes memory record, uint256 place) private pure {
        bytes32 tree = p.from.climb(Merkle.recordHash(record), place, p.recordLevels);
        if (tree == p.tree && tree != 0) return;
        if (Merkle.programRootOf(p.kernel.header, tree) != p.claim.program) revert IReferee.NotInProgram(place);
        p.tree = tree;
    }

    function _traced(Proof memory p, bytes32 root, uint256 number) private pure {
        if (p.from.climb(root, number, p.traceLevels) != p.claim.trace) revert IReferee.NotInTrace(number);
    }

    /// @dev The order binds the value that a variable has in iteration 0; both are within 32 bits.
    function _variable(Proof memory p, uint256 number) private pure {
        uint256 place = p.kernel.variableOf(number);
        if (place >= p.kernel.programVariables) revert IReferee.NotAVariable(number);
        bytes memory record = p.from.slice(p.from.number(1));
        _record(p, record, place);
        // Read as the 32 bits that it has.
        // forge-lint: disable-next-line(unsafe-typecast)
        int256 stride = int32(uint32(Records.little(record, 8, 4)));
        int256 bound = p.kernel.variables[number] - int256(p.number / p.kernel.calls) * stride;
        bytes32 leaf = Merkle.variableHash(Records.rest(record, 12), SafeCast.toInt32(bound));
        bytes32 tree = p.from.climb(leaf, place, Merkle.depth(p.kernel.programVariables));
        if (Merkle.variablesRootOf(p.kernel.programVariables, tree) != p.claim.variables) {
            revert IReferee.NotAVariable(number);
        }
    }

    function _tensor(Proof memory p, Operands.Tensors memory tensors, uint256 parameter) private pure {
        Kernels.Kernel memory k = p.kernel;
        uint256 buffer = k.bufferOf(parameter);
        uint256 iteration = p.number / k.calls;
        if (buffer >= k.buffers) {
            tensors.roots[parameter - 1] = _result(p, iteration * k.calls + _written(k, buffer));
            return;
        }
        bytes memory record = p.from.slice(p.from.number(2));
        _record(p, record, k.programVariables + buffer);
        uint256 role = uint8(record[0]);
        if (role == CONSTANT) tensors.constants[parameter - 1] = record;
        else if (role == STATE && iteration != 0) tensors.roots[parameter - 1] = _fedBack(p, record, iteration - 1);
        else tensors.roots[parameter - 1] = _bound(p, record, role);
    }

    /// @dev A tensor root that the trace has at an executed call before this one.
    function _result(Proof memory p, uint256 executed) private pure returns (bytes32 root) {
        if (executed >= p.number) revert IReferee.NotInTrace(executed);
        root = p.from.word();
        _traced(p, root, executed);
    }

    /// @dev The new state of an iteration that has the name of the state's buffer.
    function _fedBack(Proof memory p, bytes memory state, uint256 iteration) private pure returns (bytes32) {
        Kernels.Kernel memory k = p.kernel;
        uint256 place = p.from.number(2);
        bytes memory record = _resultRecord(p, place);
        if (uint8(record[0]) != NEW_STATE || keccak256(_nameOf(record)) != keccak256(_bufferName(state))) {
            revert IReferee.NotInProgram(place);
        }
        return _result(p, iteration * k.calls + _written(k, Records.little(record, 4, 4)));
    }

    /// @dev A tensor root that the task binds to the buffer's name.
    function _bound(Proof memory p, bytes memory record, uint256 role) private pure returns (bytes32 root) {
        uint256 count = p.from.number(4);
        uint256 place = p.from.number(4);
        root = p.from.word();
        bytes32 tree = p.from.climb(Merkle.bindingHash(_bufferName(record), root), place, Merkle.depth(count));
        bytes32 bindings = role == 1 ? p.claim.inputs : role == 2 ? p.claim.weights : p.claim.states;
        if (place >= count || Merkle.bindingsRootOf(count, tree) != bindings) revert IReferee.NotBound(place);
    }

    /// @dev The call that writes a buffer.
    function _written(Kernels.Kernel memory k, uint256 buffer) private pure returns (uint256 call) {
        if (buffer < k.buffers || buffer - k.buffers >= k.calls) revert IReferee.NotInProgram(buffer);
        return buffer - k.buffers;
    }

    /// @dev The name of a result with its length before it.
    function _nameOf(bytes memory record) private pure returns (bytes memory) {
        return bytes.concat(record[2], Records.rest(record, 8 + 4 * uint256(uint8(record[1]))));
    }

    /// @dev The name of a buffer that is no constant, with its length before it.
    function _bufferName(bytes memory record) private pure returns (bytes memory) {
        return bytes.concat(record[3], Records.rest(record, 4 + 4 * uint256(uint8(record[2]))));
    }

    /// @dev The root of the tree over records, whose last leaves these are. What lies right of them is padding; what lies
    /// left of them comes next, on each level at most one node.
    function _tail(Proof memory p, bytes32[] memory leaves) private pure returns (bytes32) {
        uint256 first = p.kernel.records() - leaves.length;
        bytes32 zero = Merkle.NOTHING;
        uint256 count = leaves.length;
        for (uint256 level; level < p.recordLevels; ++level) {
            uint256 odd = first % 2;
            bytes32 left = odd == 1 ? p.from.word() : bytes32(0);
            uint256 parents = (count + odd + 1) / 2;
            for (uint256 i; i < parents; ++i) {
                // Pair i, where an odd first node moves all by one.
                bytes32 a = 2 * i < odd ? left : leaves[2 * i - odd];
                leaves[i] = Merkle.node(a, 2 * i + 1 - odd < count ? leaves[2 * i + 1 - odd] : zero);
            }
            (first, count, zero) = (first / 2, parents, Merkle.node(zero, zero));
        }
        return leaves[0];
    }

    function _bindings(bytes32[] memory leaves, uint256 from, uint256 to) private pure returns (bytes32) {
        bytes32[] memory part = new bytes32[](to - from);
        for (uint256 i; i < part.length; ++i) {
            part[i] = leaves[from + i];
        }
        return Merkle.bindingsRootOf(part.length, Merkle.treeRoot(part));
    }
}
