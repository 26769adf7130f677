// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @notice What is played about: the roots that a task gives, its repeat, and what the executor committed to.
struct Claim {
    bytes32 program;
    bytes32 inputs;
    bytes32 weights;
    bytes32 states;
    bytes32 variables;
    uint32 repeat;
    bytes32 trace; // tree root over the tensor roots of all executed calls, then `outputs`
    bytes32 outputs;
}

/// @notice What a game has to know of an executed call.
/// @dev `kernel` is whatever the machine wants to be told again in `reduction` and `step`, as a hash.
struct Shape {
    uint8 dtype; // of the result, and of its elements
    uint64 elements;
    uint64 reductions; // byte k, the lowest first, is the dtype of reduction k; zero: there is none
    bytes32 kernel;
}

/// @notice One step of a reduction of an element, or the element's final expression (`reduction` is FINAL).
/// @dev Patterns are stored bits, zeros above them. `results` are those claimed for the element's reductions, in order.
struct Point {
    uint256 element;
    uint256 reduction;
    uint256 step;
    uint256 accumulator; // before the step
    uint256[] results;
}

uint8 constant FINAL = type(uint8).max;

/// @title The machine whose executions are disputed
/// @notice Knows programs and steps, and nothing of players, moves and clocks. Every answer follows from its arguments.
/// What is incomplete, malformed or not under the claim's roots reverts.
///
/// @dev Packed bytes of programs, format version 1. Integers are big-endian except inside records; depth(n) is the
/// number of levels of a tree of n leaves, ⌈log2 n⌉; a path is the siblings from the leaf upwards, 32 bytes each. V, B, D,
/// C, S are the header's numbers of variables, buffers, bodies, calls and results, R their sum, m = C·repeat. Executed call
/// `number` is call number mod C of iteration t = number div C. Records stand in the tree in program order.
///
///     kernel   header (32), u16 length, call record, u16 length, body record,
///              for each variable of the body its value in iteration t (i32)
///     proof    of a call: kernel, path of the call record (depth(R)), path of the body record (depth(R)),
///              for each variable of the body: u8 length, its record, path of the record (depth(R)),
///              path of the bound variable (value − t·stride) under the variables root (depth(V)),
///              then path of the call's tensor root under the trace (depth(m + 1))
///     witness  of a step: kernel, u8 number of tensors, the tensors, the openings
///     tensor   u8 parameter (ascending), then, by the buffer b that the call gives for it
///              b ≥ B, a result: tensor root, path under the trace (depth(m + 1)) of executed call t·C + b − B
///              else: u16 length, buffer record, path (depth(R)); then
///                constant: nothing
///                state and t > 0: u16 number of the result among the results, u16 length, result record, path
///                  (depth(R)); tensor root, path under the trace (depth(m + 1)) of call (t − 1)·C + buffer − B
///                else: u32 count, u32 place, tensor root, path under the root of its role (depth(count))
///     openings for each load whose guard holds, in ascending order of the instructions (extents of the reduction's
///              ranges have none): the leaf (1,024), its path (depth of the tensor's tree). Loads of constants have none
///     result   of a result: header (32), u16 length, its record, path (depth(R)); tensor root, path under the trace
///              (depth(m + 1)) of call (repeat − 1)·C + buffer − B
///     collect  header (32), the S result records in order (u16 length, record), the siblings that lie left of them in
///              the records' tree from the bottom up (on each level one, if the first node's number is odd), then for
///              each result: tensor root, path under the trace (depth(m + 1)) of call (repeat − 1)·C + buffer − B
interface IReferee {
    error NotInProgram(uint256 record);
    error NotInTrace(uint256 number);
    error NotBound(uint256 parameter);
    error NotAVariable(uint256 number);
    error WrongKernel(bytes32 actual, bytes32 expected);

    /// @notice How many calls one iteration of the program executes.
    /// @param header The program's header, whose hash with `recordsRoot`, the root of the tree over records, is `program`.
    function calls(bytes32 program, bytes32 header, bytes32 recordsRoot) external view returns (uint256 count);

    /// @notice What stands at an executed call of a claim.
    /// @param root The tensor root that the trace has there.
    function call(Claim calldata claim, uint256 number, bytes32 root, bytes calldata proof)
        external
        view
        returns (Shape memory shape);

    /// @notice How many steps a reduction of the kernel takes, and the pattern that it starts from.
    /// @param kernel Bytes whose keccak256 is `Shape.kernel`.
    function reduction(bytes calldata kernel, uint256 number) external view returns (uint256 length, uint256 identity);

    /// @notice The pattern of the accumulator after the step, or of the stored element, that follows from what the step
    /// reads under the claim's roots: tensors of the task, and results of executed calls before `number`.
    function step(Claim calldata claim, uint256 number, bytes32 kernel, Point calldata point, bytes calldata witness)
        external
        view
        returns (uint256 pattern);

    /// @notice What follows from the trace for a result of the program.
    /// @return results How many the program has, the outputs before the states.
    /// @return isState Whether result `number` is a state.
    /// @return leaf Its leaf of the tree over results by name.
    function result(Claim calldata claim, uint256 number, bytes calldata proof)
        external
        view
        returns (uint256 results, bool isState, bytes32 leaf);

    /// @notice The outputs root that the trace's tensor roots imply.
    function collect(Claim calldata claim, bytes calldata proof) external view returns (bytes32 outputs);
}
