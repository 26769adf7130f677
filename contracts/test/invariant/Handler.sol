// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {DeregisterParams, RegisterParams} from "../../src/interfaces/IEigenLayer.sol";
import {Admission, Opening, Order, State, Task} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {Fixture} from "../Fixture.sol";

/// @title Plays clients, operators and strangers at random, and writes down what each end of a task moved
contract Handler is Fixture {
    /// @dev Gains are differences of withdrawable balances over the transaction that ended the task.
    struct End {
        uint256 count;
        State state;
        uint256 blockNumber;
        uint256 openUntil; // the last block in which the task had to stay as it was
        int256 client;
        int256 executor;
        int256 burned;
        int256 others;
        int256 released; // collateral
    }

    struct Deal {
        address executor;
        uint256 price;
        uint256 collateral;
    }

    bytes32[] public tasks;
    mapping(bytes32 task => Order) private _orders;
    mapping(bytes32 task => Deal) private _deals;
    mapping(bytes32 task => End) private _ends;
    mapping(address operator => uint96) public capOf;
    mapping(address account => int256) public paidIn; // deposits less withdrawals

    address[] public accounts;
    address[] private _clients;
    address[] private _operators;

    constructor() {
        setUp();
        _clients = [client, makeAddr("second client")];
        _operators = [operator, rival];
        accounts = [client, _clients[1], operator, rival, anybody, market.BURN()];
        _prepay(_clients[1], 10 ether);
        for (uint256 i; i < 4; ++i) {
            paidIn[accounts[i]] = int256(_balance(accounts[i]));
        }
        capOf[operator] = CAP;
        capOf[rival] = CAP;
    }

    // ---- Messages ----

    function post(uint256 who, Order memory seed) public {
        Order memory order = _order();
        order.client = _clients[who % 2];
        order.nonce = tasks.length;
        order.minPrice = bound(seed.minPrice, 0, 0.3 ether);
        order.maxPrice = bound(seed.maxPrice, order.minPrice, 0.3 ether);
        order.rampStart = uint64(block.number + seed.rampStart % 10);
        order.rampLength = seed.rampLength % 30;
        order.exec = 1 + seed.exec % p.maxExec;
        order.acceptBy = uint64(block.number + seed.acceptBy % 40);
        if (_balance(order.client) < order.maxPrice) deposit(who % 2, 1 ether);
        bytes32 task = _post(order);
        tasks.push(task);
        _orders[task] = order;
    }

    function accept(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Open);
        if (!found || block.number > _orders[task].acceptBy) return;
        address executor = _operators[who % 2];
        if (!manager.isMember(executor)) return;
        uint256 price = _price(_orders[task], block.number);
        uint256 collateral = Terms.collateral(p, price);
        if (_balance(executor) < collateral || _held(executor) + collateral > capOf[executor]) return;
        vm.prank(_signerOf(executor));
        market.accept(executor, _orders[task], _nobodyElse());
        _deals[task] = Deal(executor, price, collateral);
    }

    function commit(uint256 seed) public {
        (bool found, bytes32 task) = _find(seed, State.Accepted);
        if (!found || block.number > market.deadlineOf(task)) return;
        address executor = _deals[task].executor;
        vm.prank(_signerOf(executor));
        market.commit(executor, task, _commitmentOf(executor, task));
    }

    function reveal(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Committed);
        if (!found || block.number > market.deadlineOf(task)) return;
        vm.prank(_anyone(who));
        market.reveal(Opening(task, 0, ROOT, SALT));
    }

    function cancel(uint256 seed) public {
        (bool found, bytes32 task) = _find(seed, State.Open);
        if (found) _end(task, _orders[task].client, abi.encodeCall(market.cancel, (_orders[task])), 0);
    }

    function expire(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Open);
        if (!found) return;
        _endOrTooEarly(task, who, abi.encodeCall(market.expire, (_orders[task])), _orders[task].acceptBy);
    }

    function fail(uint256 seed, uint256 who, bool committed) public {
        (bool found, bytes32 task) = _find(seed, committed ? State.Committed : State.Accepted);
        if (!found) return;
        _endOrTooEarly(task, who, abi.encodeCall(market.fail, (_orders[task])), market.deadlineOf(task));
    }

    function close(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Revealed);
        if (!found) return;
        _endOrTooEarly(task, who, abi.encodeCall(market.close, (_orders[task])), market.deadlineOf(task));
    }

    // ---- Money, caps, membership, time ----

    function deposit(uint256 who, uint256 amount) public {
        address account = accounts[who % 4];
        amount = bound(amount, 0, 2 ether);
        _prepay(account, amount);
        paidIn[account] += int256(amount);
    }

    function withdraw(uint256 who, uint256 amount) public {
        address account = accounts[who % 5];
        amount = bound(amount, 0, _balance(account));
        vm.prank(account);
        market.withdraw(account, amount);
        paidIn[account] -= int256(amount);
    }

    function burn() public {
        paidIn[market.BURN()] -= int256(_balance(market.BURN()));
        market.burn();
    }

    /// @dev Never below what is held: then the cap must hold at all times.
    function setCap(uint256 who, uint96 cap) public {
        address executor = _operators[who % 2];
        capOf[executor] = uint96(bound(cap, _held(executor), CAP));
        address hot = _signerOf(executor);
        vm.prank(executor);
        manager.setSigner(hot, capOf[executor], type(uint96).max);
    }

    function leaveOrJoin(uint256 who) public {
        address executor = _operators[who % 2];
        vm.startPrank(executor);
        if (manager.isMember(executor)) {
            core.allocationManager
                .deregisterFromOperatorSets(DeregisterParams(executor, address(manager), new uint32[](1)));
        } else {
            vm.roll(block.number + manager.stakeDelay() + 1);
            core.allocationManager
                .registerForOperatorSets(executor, RegisterParams(address(manager), new uint32[](1), ""));
        }
        vm.stopPrank();
    }

    function pass(uint256 blocks) public {
        vm.roll(block.number + bound(blocks, 1, 30));
    }

    // ---- What the invariants ask ----

    /// @notice Anybody, with nothing but time, brings the task to an end.
    function exit(bytes32 task) public {
        State state = market.taskAt(task).state;
        Order memory order = _orders[task];
        uint256 until = state == State.Open ? order.acceptBy : market.deadlineOf(task);
        if (block.number <= until) vm.roll(until + 1);
        vm.startPrank(anybody);
        if (state == State.Open) market.expire(order);
        else if (state == State.Revealed) market.close(order);
        else market.fail(order);
        vm.stopPrank();
    }

    function isLive(bytes32 task) public view returns (bool) {
        State state = market.taskAt(task).state;
        return state >= State.Open && state <= State.Revealed;
    }

    function count() external view returns (uint256) {
        return tasks.length;
    }

    function accountCount() external view returns (uint256) {
        return accounts.length;
    }

    function balanceOf(address account) external view returns (uint256) {
        return _balance(account);
    }

    function heldOf(address account) external view returns (uint256) {
        return _held(account);
    }

    function tokensOfMarket() external view returns (uint256) {
        return token.balanceOf(address(market));
    }

    function taskAt(bytes32 task) external view returns (Task memory) {
        return market.taskAt(task);
    }

    function orderOf(bytes32 task) external view returns (Order memory) {
        return _orders[task];
    }

    function dealOf(bytes32 task) external view returns (Deal memory) {
        return _deals[task];
    }

    function endOf(bytes32 task) external view returns (End memory) {
        return _ends[task];
    }

    function penaltyOf(bytes32 task) external view returns (uint256) {
        return Terms.penalty(p, _deals[task].price);
    }

    function priceAt(Order memory order, uint256 blockNumber) external pure returns (uint256) {
        return _price(order, blockNumber);
    }

    // ---- Inside ----

    function _endOrTooEarly(bytes32 task, uint256 who, bytes memory message, uint256 openUntil) private {
        if (block.number > openUntil) return _end(task, _anyone(who), message, openUntil);
        vm.prank(_anyone(who));
        (bool ended,) = address(market).call(message);
        assertFalse(ended, "ended before its time");
    }

    /// @dev Runs while the token refuses every transfer (invariant 6).
    function _end(bytes32 task, address caller, bytes memory message, uint256 openUntil) private {
        uint256[] memory before = new uint256[](accounts.length);
        for (uint256 i; i < accounts.length; ++i) {
            before[i] = _balance(accounts[i]);
        }
        address executor = _deals[task].executor;
        uint256 held = _held(executor);
        vm.mockCallRevert(address(token), abi.encodeWithSelector(IERC20.transfer.selector), "frozen");
        vm.mockCallRevert(address(token), abi.encodeWithSelector(IERC20.transferFrom.selector), "frozen");
        vm.prank(caller);
        (bool ended,) = address(market).call(message);
        vm.clearMockedCalls();
        assertTrue(ended, "the way out is open");

        End storage end = _ends[task];
        end.count += 1;
        end.state = market.taskAt(task).state;
        end.blockNumber = block.number;
        end.openUntil = openUntil;
        end.released = int256(held) - int256(_held(executor));
        for (uint256 i; i < accounts.length; ++i) {
            int256 gain = int256(_balance(accounts[i])) - int256(before[i]);
            if (accounts[i] == _orders[task].client) end.client += gain;
            else if (accounts[i] == executor) end.executor += gain;
            else if (accounts[i] == market.BURN()) end.burned += gain;
            else end.others += gain;
        }
    }

    function _find(uint256 seed, State state) private view returns (bool, bytes32) {
        uint256 n = tasks.length;
        for (uint256 i; i < n; ++i) {
            bytes32 task = tasks[(seed % n + i) % n];
            if (market.taskAt(task).state == state) return (true, task);
        }
        return (false, 0);
    }

    function _anyone(uint256 who) private view returns (address) {
        return accounts[who % 5];
    }

    function _signerOf(address executor) private view returns (address) {
        return executor == operator ? signer : rivalSigner;
    }

    function _commitmentOf(address executor, bytes32 task) private view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(market), task, executor, uint256(0), ROOT, SALT));
    }
}
