// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {TaskMarket} from "../src/TaskMarket.sol";
import {Phase, Position} from "../src/interfaces/IDisputeGame.sol";
import {Claim} from "../src/interfaces/IReferee.sol";
import {Opening, Order, State} from "../src/interfaces/Tasks.sol";
import {Merkle} from "../src/libraries/Merkle.sol";
import {Terms} from "../src/libraries/Terms.sol";
import {Fixture} from "./Fixture.sol";
import {TestHeaders} from "./TestHeaders.sol";

/// @title Operators with seats, seeds that draw or do not, answers, and games that end by their clocks
abstract contract MarketFixture is Fixture {
    bytes32 internal constant WRONG = keccak256("wrong outputs root");

    address internal verifier = makeAddr("verifier");
    address internal verifierSigner = makeAddr("verifier signer");

    function setUp() public virtual override {
        super.setUp();
        _join(verifier, verifierSigner, 10 ether);
        _enlist(operator, 1);
        _enlist(rival, 1);
        _enlist(verifier, 1);
        vm.roll(block.number + 1);
    }

    /// @dev Another market with the parameters `p`, which the other contracts say that they belong to.
    function _marketWith() internal returns (TaskMarket) {
        address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
        _point(address(manager), next);
        _point(address(game), next);
        _point(address(bounty), next);
        return new TaskMarket(manager, game, p);
    }

    /// @dev Says that `other` belongs to `to`.
    function _point(address other, address to) internal {
        vm.mockCall(other, abi.encodeWithSignature("market()"), abi.encode(to));
    }

    /// @dev With their deposits, so that nothing else moves its balance.
    function _enlist(address who, uint256 seats) internal {
        _prepay(who, seats * Terms.seatDeposit(p));
        vm.prank(who);
        manager.enlist(who, seats);
    }

    function _signerOf(address who) internal view returns (address hot) {
        (hot,) = manager.signerOf(who);
    }

    /// @dev More stake for the operator.
    function _stakeMore(uint256 amount) internal {
        token.mint(operator, amount);
        vm.startPrank(operator);
        token.approve(address(core.strategyManager), amount);
        core.strategyManager.depositIntoStrategy(core.strategy, token, amount);
        vm.stopPrank();
    }

    // ---- Seeds ----

    /// @dev A random value that draws the task, or does not; others with another `from`.
    function _mixFor(Order memory order, bool drawn, uint256 from) internal view returns (bytes32 mix) {
        bytes32 task = market.taskOf(order);
        do {
            mix = keccak256(abi.encode("mix", from++));
        } while (Terms.isDrawn(mix, task, order.checkRate) != drawn);
    }

    /// @dev A random value that draws none of the tasks.
    function _mixForNone(Order[] memory orders) internal view returns (bytes32 mix) {
        uint256 drawn = 1;
        for (uint256 from; drawn != 0; ++from) {
            mix = keccak256(abi.encode("mix", from));
            drawn = 0;
            for (uint256 i; i < orders.length; ++i) {
                if (Terms.isDrawn(mix, market.taskOf(orders[i]), orders[i].checkRate)) ++drawn;
            }
        }
    }

    /// @dev Goes to the block after the seed block, and records a seed.
    function _seed(Order memory order, bool drawn) internal {
        _seedWith(market.seedBlockOf(market.taskOf(order)), _mixFor(order, drawn, 0));
    }

    function _seedWith(uint256 seedBlock, bytes32 mix) internal {
        if (block.number <= seedBlock) vm.roll(seedBlock + 1);
        bytes memory header = TestHeaders.encode(seedBlock, mix);
        vm.setBlockhash(seedBlock, keccak256(header));
        vm.prank(anybody);
        market.seed(seedBlock, header);
    }

    // ---- A task up to some state ----

    function _postAndAccept() internal returns (Order memory order, bytes32 task) {
        order = _order();
        task = _post(order);
        _accept(order);
    }

    /// @dev Committed, with its seed.
    function _commitAndSeed(bytes32 root, bool drawn) internal returns (Order memory order, bytes32 task) {
        (order, task) = _postAndAccept();
        _commit(task, root);
        _seed(order, drawn);
    }

    /// @dev Revealed, undrawn.
    function _result(bytes32 root) internal returns (Order memory order, bytes32 task) {
        (order, task) = _commitAndSeed(root, false);
        _reveal(order, 0, root);
    }

    /// @dev Revealed, drawn, with hidden answers of rival and verifier.
    function _answered(bytes32 root, bytes32 rivals, bytes32 verifiers)
        internal
        returns (Order memory order, bytes32 task, uint256 rivalIndex, uint256 verifierIndex)
    {
        (order, task) = _commitAndSeed(root, true);
        rivalIndex = _answer(order, rival, rivals);
        verifierIndex = _answer(order, verifier, verifiers);
        _passAnswers(task);
        _reveal(order, 0, root);
    }

    function _indexOf(bytes32 task, address who) internal view returns (uint256) {
        for (uint256 i; i < 16; ++i) {
            (address holder,) = manager.seatAt(market.seatOf(task, i));
            if (holder == who) return i;
        }
        revert("no seat of this operator is drawn");
    }

    function _answer(Order memory order, address who, bytes32 root) internal returns (uint256 index) {
        bytes32 task = market.taskOf(order);
        index = _indexOf(task, who);
        bytes32 commitment = _commitmentOf(task, who, index + 1, root, SALT);
        vm.prank(_signerOf(who));
        market.answer(who, order, index, commitment);
    }

    function _checkBy(bytes32 task) internal view returns (uint256) {
        return market.seedBlockOf(task) + market.taskAt(task).exec + p.check;
    }

    function _passAnswers(bytes32 task) internal {
        vm.roll(_checkBy(task) + 1);
    }

    function _end(Order memory order) internal {
        _pass(market.taskOf(order));
        vm.prank(anybody);
        market.close(order);
    }

    // ---- Games ----

    function _challenge(Order memory order, address who) internal returns (uint256 gameId, Position memory position) {
        vm.prank(who);
        gameId = market.challenge(who, order);
        position = _opened(market.taskOf(order), who);
    }

    /// @dev The position of a game that is opened in this block.
    function _opened(bytes32 task, address challenger) internal view returns (Position memory position) {
        (position.task, position.executor, position.challenger) = (task, market.taskAt(task).executor, challenger);
        position.since = uint32(block.number);
        position.executorLeft = position.challengerLeft = market.taskAt(task).exec + p.clock;
    }

    /// @dev The executor lets its clock run out.
    function _executorLoses(uint256 gameId, Position memory position) internal {
        vm.roll(position.since + position.executorLeft);
        vm.prank(anybody);
        game.timeout(gameId, position.pack());
    }

    /// @dev The executor moves at once, the challenger never.
    function _challengerLoses(uint256 gameId, Position memory position, Order memory order) internal {
        position = _publish(gameId, position, order);
        vm.roll(position.since + position.challengerLeft);
        vm.prank(anybody);
        game.timeout(gameId, position.pack());
    }

    function _publish(uint256 gameId, Position memory position, Order memory order) internal returns (Position memory) {
        bytes32 outputs = market.outputsRootOf(position.task);
        bytes32[] memory trace = new bytes32[](2);
        (trace[0], trace[1]) = (keccak256("tensor root"), outputs);
        vm.prank(_signerOf(position.executor));
        game.publish(gameId, position.pack(), order, HEADER, RECORDS, trace, new bytes32[](0));
        return _publishedBy(position, order, trace);
    }

    /// @dev The position after the executor has published a trace of two leaves.
    function _publishedBy(Position memory position, Order memory order, bytes32[] memory trace)
        internal
        view
        returns (Position memory)
    {
        Claim memory claim = Claim({
            program: order.program,
            inputs: order.inputs,
            weights: order.weights,
            states: order.states,
            variables: order.variables,
            repeat: order.repeat,
            trace: Merkle.node(trace[0], trace[1]),
            outputs: trace[1]
        });
        position.claim = keccak256(abi.encode(claim));
        (position.phase, position.node) = (Phase.Call, claim.trace);
        (position.level, position.opened, position.elements) = (1, 1, 2);
        position.executorLeft -= uint32(block.number) - position.since;
        position.since = uint32(block.number);
        return position;
    }
}
