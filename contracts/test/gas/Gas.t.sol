// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {Admission, Leaf, LeafProof, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Gas of every message, as whole transactions (intrinsic gas and calldata included, refunds deducted)
/// @notice Every test run compares with `snapshots/`; `FORGE_SNAPSHOT_CHECK=false forge test` writes it anew.
/// forge-config: default.isolate = true
contract GasTest is MarketFixture {
    uint256 private constant MANY = 32;

    function test_LifeOfOneTask() public {
        Order memory order = _order();
        bytes32 task = market.taskOf(order);
        vm.prank(client);
        market.post(order, "");
        uint256 total = _snap("task", "post");

        vm.prank(signer);
        market.accept(operator, order, _nobodyElse());
        total += _snap("task", "accept");
        _commit(task);
        total += _snap("task", "commit");
        _seed(order, false);
        total += _snap("task", "seed");
        _reveal(order);
        total += _snap("task", "reveal");
        _pass(task);
        market.close(order);
        total += _snap("task", "close");

        _assertState(task, State.Final);
        vm.snapshotValue("task", "life", total);
    }

    function test_PerTaskWhenOneOperatorWorksOff32() public {
        _stakeMore(19 ether);
        (Order[] memory orders, bytes32[] memory tasks) = _orders();
        bytes32[] memory commitments = new bytes32[](MANY);
        Opening[] memory openings = new Opening[](MANY);
        for (uint256 i; i < MANY; ++i) {
            bytes32 salt = keccak256(abi.encode(i));
            commitments[i] = _commitment(tasks[i], salt);
            openings[i] = Opening(tasks[i], 0, ROOT, salt);
        }

        vm.prank(client);
        market.postMany(orders, new bytes[](MANY));
        uint256 posted = _snap("batch", "postMany");
        vm.prank(signer);
        market.acceptMany(operator, orders, new Admission[](MANY));
        uint256 operated = _snap("batch", "acceptMany");
        vm.prank(signer);
        market.commitMany(operator, tasks, commitments);
        operated += _snap("batch", "commitMany");
        _seedWith(market.seedBlockOf(tasks[0]), _mixForNone(orders));
        operated += _snap("batch", "seed");
        market.revealMany(orders, openings);
        operated += _snap("batch", "revealMany");
        _pass(tasks[0]);
        market.closeMany(orders);
        operated += _snap("batch", "closeMany");

        for (uint256 i; i < MANY; ++i) {
            _assertState(tasks[i], State.Final);
        }
        vm.snapshotValue("batch", "operator, per task", operated / MANY);
        vm.snapshotValue("batch", "life, per task", (posted + operated) / MANY);
    }

    function test_ACheck() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        uint256 index = _answer(order, rival, ROOT);
        uint256 total = _snap("check", "answer");
        _passAnswers(task);
        _reveal(order);
        _reveal(order, index + 1, ROOT);
        total += _snap("check", "reveal of an equal root");
        _end(order);
        market.settle(order, index);
        total += _snap("check", "settle");
        vm.snapshotValue("check", "whole, on top of the task's life", total);
    }

    function test_ACheckThatEndsEarly() public {
        (Order memory order,) = _commitAndSeed(ROOT, true);
        _answer(order, rival, ROOT);
        uint256 state = vm.snapshotState();
        market.expose(order, Opening(market.taskOf(order), 0, ROOT, SALT));
        _snap("check", "expose after an answer");
        vm.revertToState(state);
        _answer(order, verifier, ROOT);
        _reveal(order);
        _snap("check", "reveal before checkBy");
    }

    function test_AConviction() public {
        (Order memory order, bytes32 task, uint256 first,) = _answered(WRONG, ROOT, ROOT);
        _reveal(order, first + 1, ROOT);
        _snap("conviction", "reveal of a different root");
        Position memory position = _opened(task, rival);
        vm.prank(verifier);
        market.challenge(verifier, order);
        _snap("conviction", "challenge");
        _executorLoses(1, position);
        _snap("conviction", "last move of the deciding game");
        vm.prank(anybody);
        market.refund(order, 2);
        _snap("conviction", "refund");
        vm.prank(anybody);
        market.settle(order, first);
        _snap("conviction", "settle");
        vm.prank(anybody);
        market.slash(order);
        _snap("conviction", "slash");
        vm.roll(block.number + 25);
        bounty.pay(1);
        _snap("conviction", "pay the bounty");
    }

    function test_Expose() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        market.expose(order, Opening(task, 0, ROOT, SALT));
        _snap("messages", "expose");
    }

    function test_Demand() public {
        LeafProof[] memory proofs = new LeafProof[](1);
        (proofs[0].data, proofs[0].count, proofs[0].name) = (new bytes(1024), 1, "result");
        for (uint256 i; i < 1024; ++i) {
            proofs[0].data[i] = 0xff;
        }
        (proofs[0].dtype, proofs[0].elements) = (12, 256);
        bytes32 tensor = Merkle.tensorRootOf(12, 256, Merkle.leafHash(proofs[0].data, 0));
        bytes32 outputs = Merkle.bindingsRootOf(1, Merkle.bindingHash(bytes("\x06result"), tensor));
        (Order memory order,) = _result(Merkle.outputsRoot(outputs, 0));
        Leaf[] memory leaves = new Leaf[](1);
        vm.prank(client);
        market.demand(order, leaves);
        _snap("messages", "demand of one leaf");
        market.show(order, leaves, proofs);
        _snap("messages", "show of one leaf");
    }

    function test_PostByAnybodyWithASignature() public {
        Order memory order = _order();
        bytes memory signature = _sign(clientKey, market.taskOf(order));
        vm.prank(anybody);
        market.post(order, signature);
        _snap("messages", "post with signature");
    }

    function test_Exits() public {
        Order memory order = _order();
        _post(order);
        vm.prank(client);
        market.cancel(order);
        _snap("messages", "cancel");

        order.nonce = 2;
        _post(order);
        vm.roll(order.acceptBy + 1);
        market.expire(order);
        _snap("messages", "expire");

        order.nonce = 3;
        order.acceptBy += 100;
        bytes32 task = _post(order);
        _accept(order);
        _pass(task);
        market.close(order);
        _snap("messages", "close of a failed task");
        market.burn();
        _snap("messages", "burn");
    }

    function test_Silence() public {
        (Order memory order, bytes32 task) = _commitAndSeed(ROOT, true);
        _pass(task);
        market.close(order);
        _snap("conviction", "close of a silent executor's task");
    }

    function test_Money() public {
        token.mint(anybody, 1 ether);
        vm.startPrank(anybody);
        token.approve(address(market), 1 ether);
        market.deposit(anybody, 1 ether);
        _snap("messages", "deposit");
        market.withdraw(anybody, 0.5 ether);
        _snap("messages", "withdraw");
    }

    function test_Stake() public {
        vm.prank(anybody);
        manager.setSigner(signer, CAP, CAP);
        _snap("messages", "setSigner");
        _stakeMore(9 ether);
        _enlist(operator, 9);
        _snap("messages", "enlist 9 seats");
        vm.prank(operator);
        manager.leave(operator);
        _snap("messages", "leave with 10 seats");
    }

    /// @dev Distinct inputs and salts, so that calldata costs what it costs in earnest.
    function _orders() private view returns (Order[] memory orders, bytes32[] memory tasks) {
        orders = new Order[](MANY);
        tasks = new bytes32[](MANY);
        for (uint256 i; i < MANY; ++i) {
            orders[i] = _order();
            orders[i].nonce = i;
            orders[i].inputs = keccak256(abi.encode("inputs", i));
            orders[i].checkRate = p.checkFloor * 2;
            tasks[i] = market.taskOf(orders[i]);
        }
    }

    function _snap(string memory group, string memory name) private returns (uint256) {
        return vm.snapshotGasLastCall(group, name);
    }
}
