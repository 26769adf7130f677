// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Admission, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Fixture} from "../Fixture.sol";

/// @title Gas of every message, as whole transactions (intrinsic gas and calldata included, refunds deducted)
/// @notice Every test run compares with `snapshots/`; `FORGE_SNAPSHOT_CHECK=false forge test` writes it anew.
/// forge-config: default.isolate = true
contract GasTest is Fixture {
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
        _reveal(task);
        total += _snap("task", "reveal");
        _pass(task);
        market.close(order);
        total += _snap("task", "close");

        _assertState(task, State.Final);
        vm.snapshotValue("task", "life", total);
        assertLe(total, 400_000, "goal");
    }

    function test_PerTaskWhenOneOperatorWorksOff32() public {
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
        market.revealMany(openings);
        operated += _snap("batch", "revealMany");
        _pass(tasks[0]);
        market.closeMany(orders);
        operated += _snap("batch", "closeMany");

        for (uint256 i; i < MANY; ++i) {
            _assertState(tasks[i], State.Final);
        }
        vm.snapshotValue("batch", "operator, per task", operated / MANY);
        vm.snapshotValue("batch", "life, per task", (posted + operated) / MANY);
        assertLe(operated / MANY, 110_000, "goal");
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
        market.fail(order);
        _snap("messages", "fail");
        market.burn();
        _snap("messages", "burn");
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

    function test_SetSigner() public {
        vm.prank(anybody);
        manager.setSigner(signer, CAP, CAP);
        _snap("messages", "setSigner");
    }

    /// @dev Distinct inputs and salts, so that calldata costs what it costs in earnest.
    function _orders() private view returns (Order[] memory orders, bytes32[] memory tasks) {
        orders = new Order[](MANY);
        tasks = new bytes32[](MANY);
        for (uint256 i; i < MANY; ++i) {
            orders[i] = _order();
            orders[i].nonce = i;
            orders[i].inputs = keccak256(abi.encode("inputs", i));
            tasks[i] = market.taskOf(orders[i]);
        }
    }

    function _snap(string memory group, string memory name) private returns (uint256) {
        return vm.snapshotGasLastCall(group, name);
    }
}
