// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Positions} from "../libraries/Positions.sol";
import {Claim, IReferee} from "./IReferee.sol";
import {Order} from "./Tasks.sol";

using Positions for Position global;

/// @notice Who moves: the executor in Publish, Trace, Outputs, Tree, Leaf, Borders, the challenger in the others.
enum Phase {
    Publish,
    Call,
    Trace,
    Outputs,
    Result,
    Tree,
    Node,
    Leaf,
    Element,
    Borders,
    Span,
    Verdict
}

/// @notice Why a game ended. Determined: what the executor published cannot be, whatever the operands: a tensor without
/// elements that is not the empty one, a reduction of no steps that is not the identity, a pattern that no value has.
enum Reason {
    Verdict,
    Collect,
    Determined,
    Clock
}

/// @notice Where a game stands. What a phase does not use keeps its last value.
/// @dev A pattern is the stored bits of a value, zeros above them.
struct Position {
    bytes32 task;
    address executor;
    address challenger;
    Phase phase;
    uint32 since; // block of the last move
    uint32 executorLeft; // blocks on the clocks, as of `since`
    uint32 challengerLeft;
    bytes32 claim; // keccak256(abi.encode(Claim)); zero in Publish
    uint32 number; // the executed call that is disputed, from 0
    bytes32 node; // Call, Trace: of the trace; Tree to Leaf: of the call's tensor; Element: over the leaf, see `showLeaf`
    bool rooted; // `node` is the tensor root, which stands for the root of the tree below it
    uint8 level; // of `node`: levels between it and the leaves
    uint8 opened; // Call, Node: levels between `node` and the children that the executor published
    uint64 index; // of `node` within its level; from Leaf on the leaf's number
    uint8 dtype; // of the disputed tensor; zero before there is one
    uint64 elements; // of it; Call, Trace: leaves of the trace
    uint64 reductions; // byte k, the lowest first, is the dtype of reduction k; zero: there is none
    bytes32 kernel; // keccak256 of the kernel's bytes, see `IReferee`
    uint64 element;
    bytes32 results; // keccak256 of the results claimed for the element's reductions, each little-endian in its width
    uint8 reduction; // FINAL: the final expression
    uint64 low; // steps taken before the disputed span of the reduction, and after it; Result: outputs, and states
    uint64 high;
    uint64 lowValue; // accumulators (patterns) after so many steps; FINAL: `highValue` is the stored element
    uint64 highValue;
    bytes32 borders; // Span: keccak256 of the last borders
}

/// @notice A node below the current one: its number within its level, its hash, and the siblings from it up to the tree
/// root of the current node, of which a node of padding alone is one, too.
struct Descent {
    uint64 index;
    bytes32 child;
    bytes32[] path;
}

/// @notice An element of the shown leaf. `word` is the leaf's 32 bytes that hold the element, followed by the results of
/// all elements in them; `path` leads from its keccak256 to `Position.node`.
struct Entry {
    uint64 element;
    bytes word;
    bytes32[5] path;
}

/// @notice A final expression without reductions that is judged at once: a call, as for `pickCall`, with the way to a leaf
/// of its tensor, the leaf, an element in it, and what it reads.
struct OneShot {
    uint32 number;
    bytes32 root;
    bytes proof;
    Descent descent;
    bytes leaf;
    uint64 element;
    bytes witness;
}

/// @title What the game asks of, and tells, the market that it judges for
interface IDisputeMarket {
    /// @notice The game is decided: the executor lost, or the challenger did. Only by the game, once per game. What is
    /// reported after the task's conviction changes nothing.
    /// @param byClock whether a clock decided it, which proves nothing about the result
    function onGameEnded(bytes32 task, uint256 gameId, address challenger, bool executorLost, bool byClock) external;

    /// @notice The task's uuid: the order's EIP-712 hash.
    function taskOf(Order calldata order) external view returns (bytes32);

    /// @notice The revealed outputs root; zero before.
    function outputsRootOf(bytes32 task) external view returns (bytes32);

    /// @notice Whether `sender` is the account, or the signer that it registered.
    function mayAct(address account, address sender) external view returns (bool);
}

/// @title Disputes between a task's executor and its challengers
/// @notice One game is played between the executor and one challenger; a task can have many, and they know nothing of each
/// other. Holds no money, and does not know what the machine computes: that is the referee's.
///
/// A game is one word: keccak256(abi.encode(gameId, position)). Every move brings the position, packed into ten words as by
/// `Positions`; `Moved` carries the next one. A move needs the mover's phase, and time: each player has the blocks of its clock, exec + CLOCK, of which those between the last
/// move and its own are taken; it may move while they are fewer than it has left. From then on `timeout` is anybody's.
///
/// The challenger posts no hashes: it picks from what the executor committed to. Whatever the executor publishes has one
/// form: anything else reverts, and its clock runs.
///
/// Trees, tensor roots and leaves are those of `sdk/README.md`; a tensor's tree has ⌈log2⌉ levels of its number of leaves.
interface IDisputeGame {
    event Opened(uint256 indexed gameId, bytes32 indexed task, address indexed challenger, bytes32[10] position);
    /// @notice `data` is what the executor published: publish, descend: abi.encode(children); showOutputs:
    /// abi.encode(outputs, states); showLeaf: abi.encode(leaf, results); claimBorders: abi.encode(values). Else empty.
    event Moved(uint256 indexed gameId, bytes32[10] position, bytes data);
    event Ended(uint256 indexed gameId, bytes32 indexed task, bool executorLost, Reason reason);

    error NotTheMarket(address caller);
    error WrongPosition(uint256 gameId);
    error WrongPhase(Phase expected, Phase actual);
    error NotThePlayer(address sender, address player);
    error ClockOver(uint256 passed, uint256 left);
    error ClockNotOver(uint256 passed, uint256 left);
    error WrongOrder(bytes32 task);
    error WrongClaim();
    error WrongLevels(uint256 levels, uint256 least, uint256 most);
    error WrongChildren(uint256 count, uint256 expected);
    error WrongNode(bytes32 actual, bytes32 expected);
    error WrongPath(uint256 length, uint256 least, uint256 most);
    error Padding(uint256 index);
    error WrongLeaf(uint256 length);
    error TailNotZero();
    error WrongResults(uint256 length, uint256 expected);
    error WrongEntry(uint256 element);
    error WrongReduction(uint256 reduction);
    error WrongBorders(uint256 length, uint256 expected);
    error WrongSpan(uint256 span, uint256 spans);
    error NothingToDispute();

    /// @notice Starts a game against the revealed claim of `task`, in which each player has `clock` blocks; ids count from 1.
    /// Only by the market. → Publish
    function open(bytes32 task, address executor, address challenger, uint32 clock) external returns (uint256 gameId);

    /// @notice Publish → Call, by the executor: the trace is the tree over the tensor roots of all calls × repeat executed
    /// calls, and the outputs root that the market knows. Published of it are the nodes k levels below its root, which may
    /// be its leaves, as by `descend`.
    /// @param path The siblings, from the bottom up, that lie left of the outputs root on its way to the last child.
    function publish(
        uint256 gameId,
        bytes32[10] calldata position,
        Order calldata order,
        bytes32 header,
        bytes32 recordsRoot,
        bytes32[] calldata children,
        bytes32[] calldata path
    ) external;

    /// @notice Call → Tree (several leaves) or Leaf (one), by the challenger: disputes `root`, the tensor root of executed
    /// call `number`, whether it was published or is known otherwise. With a path in `descent` it goes on below the root as
    /// `pickNode` does. A tensor without elements is decided at once, or cannot be picked.
    /// @param proof See `IReferee`.
    function pickCall(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        uint32 number,
        bytes32 root,
        bytes calldata proof,
        Descent calldata descent
    ) external;

    /// @notice Ends the game from Call, by the challenger: the executor lost if its outputs root is another than its call
    /// roots imply, else the challenger.
    function collect(uint256 gameId, bytes32[10] calldata position, Claim calldata claim, bytes calldata proof) external;

    /// @notice Call → Outputs, by the challenger: `collect` bit by bit, where its proof fits no transaction.
    function askOutputs(uint256 gameId, bytes32[10] calldata position) external;

    /// @notice Outputs → Result, by the executor: the leaves of the trees over outputs and states by name, which give the
    /// outputs root.
    function showOutputs(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        bytes32[] calldata outputs,
        bytes32[] calldata states
    ) external;

    /// @notice Ends the game from Result, by the challenger: the executor lost if its results are not as many as the
    /// program's, if this one is of the other kind, or if its leaf is another than the trace implies; else the challenger.
    /// @param shown The leaf; its number is that of the result in the program, the outputs before the states.
    /// @param other The bindings root of the states, if it is an output, else of the outputs.
    /// @param proof See `IReferee`.
    function judgeResult(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        Descent calldata shown,
        bytes32 other,
        bytes calldata proof
    ) external;

    /// @notice Trace → Call or Tree → Node, by the executor: the nodes k levels below the current one, which they fold to;
    /// k is at least min(5, level), at most min(11, level). Those that stand for padding alone are left out.
    /// @param levels k.
    function descend(uint256 gameId, bytes32[10] calldata position, uint256 levels, bytes32[] calldata children)
        external;

    /// @notice Call → Trace or Node → Tree, or Leaf where a leaf is picked, by the challenger: a child that the executor
    /// published, or a node further down if the challenger knows the way. Neither padding can be picked, nor a leaf of the
    /// trace: that is `pickCall`.
    function pickNode(uint256 gameId, bytes32[10] calldata position, Descent calldata descent) external;

    /// @notice Leaf → Element, by the executor: the 1,024 bytes of the leaf, zero beyond the last element, and the results
    /// of the reductions of each element in it, element by element, each little-endian in its dtype's width.
    /// @dev Node becomes the root of a tree of keccak256 over 32 leaves, keccak256(two nodes) above: leaf w is keccak256 of
    /// bytes 32w to 32w + 31 followed by the results of the elements that begin in them.
    function showLeaf(uint256 gameId, bytes32[10] calldata position, bytes calldata leaf, bytes calldata results)
        external;

    /// @notice Element → Borders, or Verdict where one step or the final expression (FINAL) is picked, by the challenger. A
    /// result of no steps, or that is no value's pattern, is decided at once; the identity of no steps cannot be picked.
    /// @param kernel The bytes of the kernel; empty for FINAL.
    function pickReduction(
        uint256 gameId,
        bytes32[10] calldata position,
        Entry calldata entry,
        uint8 reduction,
        bytes calldata kernel
    ) external;

    /// @notice Borders → Span, by the executor: the accumulators between the spans of the steps from low to high, of
    /// stride ⌈(high − low) / 64⌉ each but the last; each little-endian in the dtype's width, and canonical.
    function claimBorders(uint256 gameId, bytes32[10] calldata position, bytes calldata values) external;

    /// @notice Span → Borders, or Verdict where the span is one step, by the challenger.
    /// @param values The borders that the executor claimed.
    function pickSpan(uint256 gameId, bytes32[10] calldata position, uint256 span, bytes calldata values) external;

    /// @notice Ends the game from Verdict, by anybody within the challenger's clock: the executor lost if the step gives
    /// another pattern than it claims, else the challenger.
    /// @param results The results of the element's reductions, whose hash the position has.
    /// @param witness See `IReferee`.
    function verdict(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        bytes calldata results,
        bytes calldata witness
    ) external;

    /// @notice `pickCall`, the leaf, which the challenger knows, and the `verdict` on a final expression without reductions,
    /// from Call, by the challenger.
    function judgeCall(uint256 gameId, bytes32[10] calldata position, Claim calldata claim, OneShot calldata shot)
        external;

    /// @notice `pickReduction` of the final expression and `verdict` in one, by the challenger.
    function judgeFinal(
        uint256 gameId,
        bytes32[10] calldata position,
        Entry calldata entry,
        Claim calldata claim,
        bytes calldata witness
    ) external;

    /// @notice `pickSpan` of one step and `verdict` in one, by the challenger.
    function judgeSpan(
        uint256 gameId,
        bytes32[10] calldata position,
        uint256 span,
        bytes calldata values,
        Claim calldata claim,
        bytes calldata results,
        bytes calldata witness
    ) external;

    /// @notice Ends the game, by anybody, when the side to move has used up its clock: it lost.
    function timeout(uint256 gameId, bytes32[10] calldata position) external;

    /// @notice keccak256(abi.encode(gameId, position)) of the game's position; zero if it is over, or never was.
    function positionOf(uint256 gameId) external view returns (bytes32);

    /// @notice How many games were opened: the last one's id.
    function games() external view returns (uint256 count);

    /// @notice The market whose results are judged, which alone opens games.
    function market() external view returns (IDisputeMarket);

    /// @notice The machine that says what a step gives.
    function referee() external view returns (IReferee);
}
