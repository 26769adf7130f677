// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {
    Descent,
    Entry,
    IDisputeGame,
    IDisputeMarket,
    OneShot,
    Phase,
    Position,
    Reason
} from "./interfaces/IDisputeGame.sol";
import {Claim, FINAL, IReferee, Point, Shape} from "./interfaces/IReferee.sol";
import {Order} from "./interfaces/ITaskMarket.sol";
import {Moves} from "./libraries/Moves.sol";
import {Patterns} from "./libraries/Patterns.sol";

/// @title Disputes between a task's executor and its challengers
contract DisputeGame is IDisputeGame {
    /// @dev Bytes of a packed position.
    uint256 private constant POSITION = 10 * 32;

    /// @inheritdoc IDisputeGame
    IDisputeMarket public immutable market;
    /// @inheritdoc IDisputeGame
    IReferee public immutable referee;

    /// @inheritdoc IDisputeGame
    mapping(uint256 gameId => bytes32) public positionOf;
    /// @inheritdoc IDisputeGame
    uint256 public games;

    constructor(IDisputeMarket market_, IReferee referee_) {
        (market, referee) = (market_, referee_);
    }

    /// @inheritdoc IDisputeGame
    function open(bytes32 task, address executor, address challenger, uint32 clock) external returns (uint256 gameId) {
        if (msg.sender != address(market)) revert NotTheMarket(msg.sender);
        Position memory p;
        (p.task, p.executor, p.challenger) = (task, executor, challenger);
        p.executorLeft = p.challengerLeft = clock;
        p.since = uint32(block.number);
        gameId = ++games;
        bytes32[10] memory packed = p.pack();
        positionOf[gameId] = _hash(gameId, packed);
        emit Opened(gameId, task, challenger, packed);
    }

    // ---- The executor ----

    /// @inheritdoc IDisputeGame
    function publish(
        uint256 gameId,
        bytes32[10] calldata position,
        Order calldata order,
        bytes32 header,
        bytes32 recordsRoot,
        bytes32[] calldata children,
        bytes32[] calldata path
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Publish);
        if (market.taskOf(order) != p.task) revert WrongOrder(p.task);
        bytes32 outputs = market.outputsRootOf(p.task);
        uint256 calls = referee.calls(order.program, header, recordsRoot) * order.repeat;
        Moves.publish(p, calls, outputs, children, path);
        Claim memory claim = Claim({
            program: order.program,
            inputs: order.inputs,
            weights: order.weights,
            states: order.states,
            variables: order.variables,
            repeat: order.repeat,
            trace: p.node,
            outputs: outputs
        });
        p.claim = keccak256(abi.encode(claim));
        _go(gameId, p, abi.encode(children));
    }

    /// @inheritdoc IDisputeGame
    function descend(uint256 gameId, bytes32[10] calldata position, uint256 levels, bytes32[] calldata children)
        external
    {
        Position memory p;
        _begin(p, gameId, position, Phase.Tree, Phase.Trace);
        Moves.descend(p, levels, children);
        _go(gameId, p, abi.encode(children));
    }

    /// @inheritdoc IDisputeGame
    function showOutputs(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        bytes32[] calldata outputs,
        bytes32[] calldata states
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Outputs);
        _check(p, claim);
        Moves.showOutputs(p, claim.outputs, outputs, states);
        _go(gameId, p, abi.encode(outputs, states));
    }

    /// @inheritdoc IDisputeGame
    function showLeaf(uint256 gameId, bytes32[10] calldata position, bytes calldata leaf, bytes calldata results)
        external
    {
        Position memory p;
        _begin(p, gameId, position, Phase.Leaf);
        Moves.showLeaf(p, leaf, results);
        _go(gameId, p, abi.encode(leaf, results));
    }

    /// @inheritdoc IDisputeGame
    function claimBorders(uint256 gameId, bytes32[10] calldata position, bytes calldata values) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Borders);
        Moves.claimBorders(p, values);
        _go(gameId, p, abi.encode(values));
    }

    // ---- The challenger ----

    /// @inheritdoc IDisputeGame
    function pickCall(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        uint32 number,
        bytes32 root,
        bytes calldata proof,
        Descent calldata descent
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Call);
        _check(p, claim);
        Shape memory shape = referee.call(claim, number, root, proof);
        if (Moves.pickCall(p, number, root, shape, descent)) _end(gameId, p, true, Reason.Determined);
        else _go(gameId, p, "");
    }

    /// @inheritdoc IDisputeGame
    function collect(uint256 gameId, bytes32[10] calldata position, Claim calldata claim, bytes calldata proof)
        external
    {
        Position memory p;
        _begin(p, gameId, position, Phase.Call);
        _check(p, claim);
        _end(gameId, p, referee.collect(claim, proof) != claim.outputs, Reason.Collect);
    }

    /// @inheritdoc IDisputeGame
    function askOutputs(uint256 gameId, bytes32[10] calldata position) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Call);
        p.phase = Phase.Outputs;
        _go(gameId, p, "");
    }

    /// @inheritdoc IDisputeGame
    function judgeResult(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        Descent calldata shown,
        bytes32 other,
        bytes calldata proof
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Result);
        _check(p, claim);
        (uint256 results, bool isState, bytes32 leaf) = referee.result(claim, shown.index, proof);
        bool isWrong = Moves.judgeResult(p, claim.outputs, shown, other, results, isState, leaf);
        _end(gameId, p, isWrong, Reason.Collect);
    }

    /// @inheritdoc IDisputeGame
    function judgeCall(uint256 gameId, bytes32[10] calldata position, Claim calldata claim, OneShot calldata shot)
        external
    {
        Position memory p;
        _begin(p, gameId, position, Phase.Call);
        Shape memory shape = referee.call(claim, shot.number, shot.root, shot.proof);
        Moves.pickCall(p, shot.number, shot.root, shape, shot.descent);
        Moves.pickFinal(p, shot.element, shot.leaf);
        _judge(gameId, p, claim, "", shot.witness);
    }

    /// @inheritdoc IDisputeGame
    function pickNode(uint256 gameId, bytes32[10] calldata position, Descent calldata descent) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Node, Phase.Call);
        Moves.pickNode(p, descent);
        _go(gameId, p, "");
    }

    /// @inheritdoc IDisputeGame
    function pickReduction(
        uint256 gameId,
        bytes32[10] calldata position,
        Entry calldata entry,
        uint8 reduction,
        bytes calldata kernel
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Element);
        (uint256 length, uint256 identity) = (0, 0);
        if (reduction != FINAL) {
            if (keccak256(kernel) != p.kernel) revert IReferee.WrongKernel(keccak256(kernel), p.kernel);
            (length, identity) = referee.reduction(kernel, reduction);
        }
        (bool decided,) = Moves.pickReduction(p, entry, reduction, length, identity);
        if (decided) _end(gameId, p, true, Reason.Determined);
        else _go(gameId, p, "");
    }

    /// @inheritdoc IDisputeGame
    function pickSpan(uint256 gameId, bytes32[10] calldata position, uint256 span, bytes calldata values) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Span);
        Moves.pickSpan(p, span, values);
        _go(gameId, p, "");
    }

    /// @inheritdoc IDisputeGame
    function judgeFinal(
        uint256 gameId,
        bytes32[10] calldata position,
        Entry calldata entry,
        Claim calldata claim,
        bytes calldata witness
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Element);
        (, bytes memory results) = Moves.pickReduction(p, entry, FINAL, 0, 0);
        _judge(gameId, p, claim, results, witness);
    }

    /// @inheritdoc IDisputeGame
    function judgeSpan(
        uint256 gameId,
        bytes32[10] calldata position,
        uint256 span,
        bytes calldata values,
        Claim calldata claim,
        bytes calldata results,
        bytes calldata witness
    ) external {
        Position memory p;
        _begin(p, gameId, position, Phase.Span);
        Moves.pickSpan(p, span, values);
        if (p.phase != Phase.Verdict) revert WrongPhase(Phase.Verdict, p.phase);
        _judge(gameId, p, claim, results, witness);
    }

    // ---- Anybody ----

    /// @inheritdoc IDisputeGame
    function verdict(
        uint256 gameId,
        bytes32[10] calldata position,
        Claim calldata claim,
        bytes calldata results,
        bytes calldata witness
    ) external {
        Position memory p;
        _load(p, gameId, position);
        if (p.phase != Phase.Verdict) revert WrongPhase(Phase.Verdict, p.phase);
        Moves.spend(p, block.number);
        _judge(gameId, p, claim, results, witness);
    }

    /// @inheritdoc IDisputeGame
    function timeout(uint256 gameId, bytes32[10] calldata position) external {
        Position memory p;
        _load(p, gameId, position);
        (uint256 passed, uint256 left) = Moves.clock(p, block.number);
        if (passed < left) revert ClockNotOver(passed, left);
        _end(gameId, p, Moves.isExecutors(p.phase), Reason.Clock);
    }

    // ---- Inside ----

    /// @dev INVARIANT 31: a position is one of this game, and of no other. What has this hash was packed here: its fields
    /// are well-formed, and the bits between them zero.
    function _load(Position memory p, uint256 gameId, bytes32[10] calldata position) private view {
        bytes32[10] memory packed;
        assembly ("memory-safe") {
            calldatacopy(packed, position, POSITION)
        }
        if (positionOf[gameId] != _hash(gameId, packed)) revert WrongPosition(gameId);
        p.read(packed);
    }

    function _begin(Position memory p, uint256 gameId, bytes32[10] calldata position, Phase phase) private view {
        _begin(p, gameId, position, phase, phase);
    }

    /// @dev The position, in one of two phases of one side, with the mover's clock stopped; only the mover comes through.
    function _begin(Position memory p, uint256 gameId, bytes32[10] calldata position, Phase phase, Phase other)
        private
        view
    {
        _load(p, gameId, position);
        if (p.phase != phase && p.phase != other) revert WrongPhase(phase, p.phase);
        address player = Moves.isExecutors(phase) ? p.executor : p.challenger;
        // INVARIANT 26: nobody else spends a player's move.
        if (msg.sender != player && !market.mayAct(player, msg.sender)) revert NotThePlayer(msg.sender, player);
        Moves.spend(p, block.number);
    }

    function _check(Position memory p, Claim calldata claim) private pure {
        if (keccak256(abi.encode(claim)) != p.claim) revert WrongClaim();
    }

    /// @dev INVARIANT 32: the outcome depends on what the executor published and on the task, not on who brings it.
    function _judge(
        uint256 gameId,
        Position memory p,
        Claim calldata claim,
        bytes memory results,
        bytes calldata witness
    ) private {
        _check(p, claim);
        if (keccak256(results) != p.results) revert WrongResults(results.length, Patterns.sizeOfAll(p.reductions));
        Point memory point = Point({
            element: p.element,
            reduction: p.reduction,
            step: p.low,
            accumulator: p.lowValue,
            results: Patterns.unpacked(p.reductions, results)
        });
        uint256 pattern = referee.step(claim, p.number, p.kernel, point, witness);
        _end(gameId, p, pattern != p.highValue, Reason.Verdict);
    }

    function _go(uint256 gameId, Position memory p, bytes memory data) private {
        bytes32[10] memory packed = p.pack();
        positionOf[gameId] = _hash(gameId, packed);
        bytes32 topic = Moved.selector;
        // emit Moved(gameId, packed, data), where the encoder would go through the position word by word
        assembly ("memory-safe") {
            let free := mload(0x40)
            let size := add(32, mload(data))
            mcopy(free, packed, POSITION)
            mstore(add(free, POSITION), add(POSITION, 32))
            let tail := add(free, add(POSITION, 32))
            mcopy(tail, data, size)
            mstore(add(tail, size), 0)
            log2(free, add(add(POSITION, 32), and(add(size, 31), not(31))), topic, gameId)
        }
    }

    function _end(uint256 gameId, Position memory p, bool executorLost, Reason reason) private {
        delete positionOf[gameId];
        emit Ended(gameId, p.task, executorLost, reason);
        market.onGameEnded(p.task, gameId, p.challenger, executorLost, reason == Reason.Clock);
    }

    /// @dev keccak256(abi.encode(gameId, packed)).
    function _hash(uint256 gameId, bytes32[10] memory packed) private pure returns (bytes32 hash) {
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore(free, gameId)
            mcopy(add(free, 32), packed, POSITION)
            hash := keccak256(free, add(32, POSITION))
        }
    }
}
