// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Phase, Position} from "../../src/interfaces/IDisputeGame.sol";
import {
    Answer,
    Cause,
    Conviction,
    Leaf,
    LeafProof,
    Opening,
    Order,
    Stage,
    State,
    Task
} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Plays everybody at random over market, service manager, stand-in core and game, and checks each message
/// @dev Executors, verifiers and challengers are different accounts, so that each one's gains have one cause. The honest
/// result is one without outputs: every demanded leaf can be shown not to exist. A wrong one cannot be shown.
contract Handler is MarketFixture {
    struct Ghost {
        Order order;
        bytes32 root; // that the executor committed to
        uint256 price;
        bool exposed;
        uint256 ends; // how often it became terminal
        State end;
        uint256 slashes;
        uint256 demanded; // leaves
        bool shown;
        uint256[] games;
    }

    bytes32[] public tasks;
    address[] public accounts;
    mapping(address account => int256) public paidIn; // deposits less withdrawals
    mapping(address operator => uint96) public capOf;
    mapping(address operator => uint256) public sharesOf; // at the start
    mapping(bytes32 task => bool) public divided; // whether what no verifier gets was burned
    mapping(uint256 gameId => bool) public lostByChallenger; // while the task was Revealed
    mapping(bytes32 task => Ghost) private _ghosts;
    mapping(uint256 gameId => Position) private _positions;
    mapping(uint256 gameId => bool) private _over;
    bytes32 private _honest;
    bool private _paused;

    constructor() {
        setUp();
        _honest = Merkle.outputsRoot(Merkle.bindingsRootOf(0, 0), Merkle.bindingsRootOf(0, 0));
        address second = makeAddr("second verifier");
        _join(second, makeAddr("second verifier's signer"), 10 ether);
        _enlist(second, 1);
        // Executors have no seats: all that may answer are two, who often both do.
        vm.prank(operator);
        manager.leave(operator);
        vm.prank(rival);
        manager.leave(rival);
        vm.roll(block.number + 1);
        accounts = [client, makeAddr("second client"), operator, rival, verifier, second, anybody];
        accounts.push(makeAddr("second challenger"));
        accounts.push(market.BURN());
        for (uint256 i; i < 8; ++i) {
            if (_balance(accounts[i]) == 0) _prepay(accounts[i], 10 ether);
            paidIn[accounts[i]] = int256(_balance(accounts[i]));
            if (i >= 2 && i < 6) capOf[accounts[i]] = CAP;
        }
        _stake(operator);
        _stake(rival);
        for (uint256 i = 2; i < 6; ++i) {
            sharesOf[accounts[i]] = core.delegationManager.operatorShares(accounts[i], core.strategy);
        }
    }

    // ---- Up to the commit ----

    function post(uint256 who, Order memory seed) public {
        Order memory order = _order();
        order.client = accounts[who % 2];
        order.nonce = tasks.length;
        order.minPrice = bound(seed.minPrice, 0, 0.1 ether);
        order.maxPrice = bound(seed.maxPrice, order.minPrice, 0.1 ether);
        order.rampStart = uint64(block.number + seed.rampStart % 10);
        order.rampLength = seed.rampLength % 30;
        order.exec = 1 + seed.exec % p.maxExec;
        order.acceptBy = uint64(block.number + seed.acceptBy % 40);
        order.verifiers = 1 + seed.verifiers % 4;
        order.checkRate = uint64(bound(seed.checkRate, 0.5e18, 1e18));
        order.checkFee = Terms.checkFeeBound(p, order.maxPrice) + seed.checkFee % 1e15;
        if (_balance(order.client) < _escrow(order)) deposit(who % 2, 2 ether);
        bytes32 task = _post(order);
        tasks.push(task);
        _ghosts[task].order = order;
    }

    function accept(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Open);
        if (!found || block.number > _ghosts[task].order.acceptBy) return;
        address executor = accounts[2 + who % 2];
        Order memory order = _ghosts[task].order;
        uint256 price = _price(order, block.number);
        uint256 collateral = Terms.collateral(p, price, order.verifiers, order.checkFee);
        uint256 end = block.number + Terms.lifetime(p, order.exec);
        uint256 stake = Terms.stake(p, price, 0, order.checkRate, order.verifiers);
        if (_balance(executor) < collateral || _tied(executor) + collateral > capOf[executor]) return;
        if (manager.freeStake(executor, end) <= stake) return;
        vm.prank(_signerOf(executor));
        market.accept(executor, order, _nobodyElse());
        _ghosts[task].price = price;
        assertLe(Terms.lifetime(p, order.exec), manager.stakeDelay(), "invariant 38");
        assertEq(manager.lockOf(task, executor).end, end, "the stake is locked until END");
    }

    function commit(uint256 seed, bool honest) public {
        (bool found, bytes32 task) = _find(seed, State.Accepted);
        if (!found || block.number > market.deadlineOf(task)) return;
        address executor = market.taskAt(task).executor;
        bytes32 root = honest ? _honest : WRONG;
        _ghosts[task].root = root;
        vm.prank(_signerOf(executor));
        market.commit(executor, task, _commitmentOf(task, executor, 0, root, SALT));
        assertGe(market.seedBlockOf(task), block.number + p.lag, "invariant 20");
    }

    // ---- Checks ----

    function recordSeed(uint256 seed, bytes32 mix) public {
        (bool found, bytes32 task) = _find(seed, State.Committed);
        if (!found || mix == 0) return;
        uint256 s = market.seedBlockOf(task);
        if (market.seedOf(s) == 0 && block.number <= s + p.record) _seedWith(s, mix);
    }

    function answer(uint256 seed, uint256 who, bool honest) public {
        (bool found, bytes32 task) = _find(seed, State.Committed);
        (, bool drawn) = market.isDrawn(_ghosts[task].order);
        if (!found || !drawn || block.number > _checkBy(task)) return;
        address by = accounts[4 + who % 2];
        uint256 bond = Terms.bond(p, _ghosts[task].price);
        if (_balance(by) < bond || _tied(by) + bond > capOf[by]) return;
        for (uint256 i; i < 16; ++i) {
            (address holder,) = manager.seatAt(market.seatOf(task, i));
            if (holder != by) continue;
            bytes32 commitment = _commitmentOf(task, by, i + 1, honest ? _honest : WRONG, SALT);
            vm.prank(_signerOf(by));
            (bool taken,) =
                address(market).call(abi.encodeCall(market.answer, (by, _ghosts[task].order, i, commitment)));
            if (!taken) assertTrue(_hasAnswered(task, by), "invariant 21: only a second answer is refused");
            return;
        }
    }

    function expose(uint256 seed, uint256 who, uint256 slot) public {
        (bool found, bytes32 task) = _find(seed, State.Committed);
        if (!found) return;
        slot %= 17;
        bytes32 root = slot == 0 ? _ghosts[task].root : _rootOf(task, slot - 1);
        uint256 locked = manager.lockedStake(market.taskAt(task).executor);
        bool hidden = !_mayBeRevealed(task);
        bytes memory message = abi.encodeCall(market.expose, (_ghosts[task].order, Opening(task, slot, root, SALT)));
        if (!_run(task, accounts[6 + who % 2], message)) return;
        _assertState(task, State.Committed);
        assertTrue(hidden, "invariant 24: exposures end where reveals begin");
        assertEq(manager.lockedStake(market.taskAt(task).executor), locked, "invariant 24: stake");
        if (slot != 0) return;
        assertFalse(_ghosts[task].exposed, "invariant 24: once per slot");
        _ghosts[task].exposed = true;
    }

    function reveal(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Committed);
        if (!found) return;
        Opening memory opening = Opening(task, 0, _ghosts[task].root, SALT);
        bool open = _mayBeRevealed(task) && block.number <= market.deadlineOf(task);
        bool revealed = _run(task, _anyone(who), abi.encodeCall(market.reveal, (_ghosts[task].order, opening)));
        assertEq(revealed, open, "invariant 22");
    }

    function revealAnswer(uint256 seed, uint256 index, uint256 who) public {
        if (tasks.length == 0) return;
        bytes32 task = tasks[seed % tasks.length];
        index %= 64;
        if (market.answerOf(task, index).stage != Stage.Hidden) return;
        Opening memory opening = Opening(task, index + 1, _rootOf(task, index), SALT);
        uint256 games = game.games();
        if (!_run(task, _anyone(who), abi.encodeCall(market.reveal, (_ghosts[task].order, opening)))) return;
        if (game.games() > games) _track(task, game.games(), market.answerOf(task, index).operator);
    }

    /// @notice A task from its order to its result at once, with both verifiers' answers if it is drawn: so that what comes
    /// after is played often.
    function result(Order memory order, bytes32 mix, bool honest, uint256 answers) public {
        order.acceptBy = 39;
        post(uint256(mix), order);
        uint256 last = tasks.length - 1;
        bytes32 task = tasks[last];
        accept(last, answers);
        if (market.taskAt(task).state != State.Accepted) return;
        commit(last, honest);
        recordSeed(last, mix);
        answer(last, 0, answers % 3 != 0);
        answer(last, 1, answers % 5 != 0);
        if (block.number <= _checkBy(task) && answers % 4 != 0) _passAnswers(task);
        if (answers % 7 == 0) return;
        reveal(last, 0);
        for (uint256 i; market.taskAt(task).answered >> i != 0; ++i) {
            revealAnswer(last, i, 0);
        }
    }

    // ---- Disputes ----

    function challenge(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Revealed);
        address by = accounts[6 + who % 2];
        if (!found || _balance(by) < Terms.bond(p, _ghosts[task].price)) return;
        if (!_run(task, by, abi.encodeCall(market.challenge, (by, _ghosts[task].order)))) return;
        _track(task, game.games(), by);
    }

    function endGame(uint256 seed, bool executorLost) public {
        uint256 n = game.games();
        for (uint256 i; i < n; ++i) {
            uint256 gameId = 1 + (seed % n + i) % n;
            if (!_over[gameId]) return _endGame(gameId, executorLost);
        }
    }

    function demand(uint256 seed, uint256 leaves) public {
        (bool found, bytes32 task) = _find(seed, State.Revealed);
        if (!found) return;
        leaves = 1 + leaves % 3;
        address by = _ghosts[task].order.client;
        if (_balance(by) < leaves * p.gChunk) return;
        bytes memory message = abi.encodeCall(market.demand, (_ghosts[task].order, new Leaf[](leaves)));
        if (_run(task, by, message)) _ghosts[task].demanded = leaves;
    }

    function show(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Revealed);
        if (!found) return;
        uint256 leaves = _ghosts[task].demanded;
        LeafProof[] memory proofs = new LeafProof[](leaves);
        for (uint256 i; i < leaves; ++i) {
            proofs[i].other = Merkle.bindingsRootOf(0, 0);
        }
        bytes memory message = abi.encodeCall(market.show, (_ghosts[task].order, new Leaf[](leaves), proofs));
        if (!_run(task, _anyone(who), message)) return;
        assertEq(_ghosts[task].root, _honest, "only what is there is shown");
        _ghosts[task].shown = true;
    }

    // ---- Ends ----

    function cancel(uint256 seed) public {
        (bool found, bytes32 task) = _find(seed, State.Open);
        if (!found) return;
        assertTrue(_run(task, _ghosts[task].order.client, abi.encodeCall(market.cancel, (_ghosts[task].order))));
    }

    function expire(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Open);
        if (!found) return;
        bool over = block.number > _ghosts[task].order.acceptBy;
        assertEq(_run(task, _anyone(who), abi.encodeCall(market.expire, (_ghosts[task].order))), over, "expire");
    }

    function close(uint256 seed, uint256 who, uint256 state) public {
        (bool found, bytes32 task) = _find(seed, State(uint256(State.Accepted) + state % 3));
        if (!found) return;
        State before = market.taskAt(task).state;
        bool over = block.number > market.deadlineOf(task);
        if (before == State.Revealed) over = over && (market.openGames(task) == 0 || _waits(task));
        (, bool drawn) = market.isDrawn(_ghosts[task].order);
        bool closed = _run(task, _anyone(who), abi.encodeCall(market.close, (_ghosts[task].order)));
        assertEq(closed, over, "invariants 3 and 37: the way out opens with time, and not before");
        if (!closed || before == State.Revealed) return;
        _assertState(task, before == State.Committed && drawn ? State.Convicted : State.Failed); // invariant 23
    }

    function settle(uint256 seed, uint256 index, uint256 who) public {
        if (tasks.length == 0) return;
        bytes32 task = tasks[seed % tasks.length];
        _run(task, _anyone(who), abi.encodeCall(market.settle, (_ghosts[task].order, index % 64)));
    }

    function refund(uint256 seed, uint256 number) public {
        (bool found, bytes32 task) = _find(seed, State.Convicted);
        if (!found || _ghosts[task].games.length == 0) return;
        uint256 gameId = _ghosts[task].games[number % _ghosts[task].games.length];
        _run(task, anybody, abi.encodeCall(market.refund, (_ghosts[task].order, gameId)));
    }

    function slash(uint256 seed, uint256 who) public {
        (bool found, bytes32 task) = _find(seed, State.Convicted);
        if (found) _slash(task, accounts[6 + who % 2]); // may earn W, which is no executor's gain
    }

    // ---- Money, the core, time ----

    function deposit(uint256 who, uint256 amount) public {
        address account = accounts[who % 8];
        amount = bound(amount, 0, 2 ether);
        _prepay(account, amount);
        paidIn[account] += int256(amount);
    }

    function withdraw(uint256 who, uint256 amount) public {
        address account = accounts[who % 8];
        amount = bound(amount, 0, _balance(account));
        vm.prank(account);
        market.withdraw(account, amount);
        paidIn[account] -= int256(amount);
    }

    /// @dev Never below what is held: then the cap must hold at all times.
    function setCap(uint256 who, uint96 cap) public {
        address account = accounts[2 + who % 4];
        capOf[account] = uint96(bound(cap, _tied(account), CAP));
        address hot = _signerOf(account);
        vm.prank(account);
        manager.setSigner(hot, capOf[account], CAP);
    }

    function pauseOrUnpause() public {
        if (_paused) core.allocationManager.unpause(0);
        else core.allocationManager.pause(type(uint256).max);
        _paused = !_paused;
    }

    function pass(uint256 blocks) public {
        vm.roll(block.number + bound(blocks, 1, 20));
    }

    // ---- What the invariants ask ----

    /// @notice Anybody, with nothing but time, brings the task to an end and hands out everything.
    function windUp(bytes32 task) public {
        Order memory order = _ghosts[task].order;
        if (_paused) pauseOrUnpause();
        State state = market.taskAt(task).state;
        if (state == State.Open) {
            if (block.number <= order.acceptBy) vm.roll(order.acceptBy + 1);
            market.expire(order);
        } else if (isLive(task)) {
            for (uint256 i; i < _ghosts[task].games.length; ++i) {
                if (!_over[_ghosts[task].games[i]]) _endGame(_ghosts[task].games[i], i % 2 == 0);
            }
            if (isLive(task)) {
                if (block.number <= market.deadlineOf(task)) _pass(task);
                market.close(order);
            }
        }
        state = market.taskAt(task).state;
        if (state != State.Final && state != State.Convicted) return;
        if (block.number <= market.answersBy(task)) vm.roll(market.answersBy(task) + 1);
        uint64 answered = market.taskAt(task).answered;
        for (uint256 i; answered >> i != 0; ++i) {
            if (answered >> i & 1 != 0) _run(task, anybody, abi.encodeCall(market.settle, (order, i)));
        }
        if (state == State.Final) return;
        for (uint256 i; i < _ghosts[task].games.length; ++i) {
            _run(task, anybody, abi.encodeCall(market.refund, (order, _ghosts[task].games[i])));
        }
        _slash(task, anybody);
    }

    function isLive(bytes32 task) public view returns (bool) {
        State state = market.taskAt(task).state;
        return state >= State.Open && state <= State.Revealed;
    }

    function count() external view returns (uint256) {
        return tasks.length;
    }

    function ghostOf(bytes32 task) external view returns (Ghost memory) {
        return _ghosts[task];
    }

    function taskAt(bytes32 task) external view returns (Task memory) {
        return market.taskAt(task);
    }

    function answerOf(bytes32 task, uint256 index) external view returns (Answer memory) {
        return market.answerOf(task, index);
    }

    function balanceOf(address account) external view returns (uint256) {
        return _balance(account);
    }

    function heldOf(address account) external view returns (uint256) {
        return _held(account);
    }

    function depositsOf(address account) external view returns (uint256) {
        return _depositsOf(account);
    }

    function tokensOfMarket() external view returns (uint256) {
        return token.balanceOf(address(market));
    }

    function stakeOf(address account) external view returns (uint256) {
        return core.delegationManager.operatorShares(account, core.strategy);
    }

    /// @notice Games of a task that its challengers lost while it was Revealed.
    function wonOf(bytes32 task) public view returns (uint256 won) {
        for (uint256 i; i < _ghosts[task].games.length; ++i) {
            if (lostByChallenger[_ghosts[task].games[i]]) ++won;
        }
    }

    /// @notice What the market owes to nobody yet, by the protocol's rules: escrows, won bonds, fees and rewards to come.
    function owedOf(bytes32 task) external view returns (uint256 owed) {
        Ghost memory g = _ghosts[task];
        Task memory t = market.taskAt(task);
        uint256 v = g.order.checkFee;
        if (isLive(task)) {
            return _escrow(g.order) + wonOf(task) * Terms.bondShare(p, g.price) + g.demanded * p.gChunk;
        }
        if (t.state == State.Final) return v * _unpaid(task, t.agreed, g.order.verifiers);
        if (t.state != State.Convicted) return 0;
        Conviction memory c = market.convictionOf(task);
        uint256 w = Terms.reward(p, g.price);
        bool verifiers = c.cause == Cause.Silence && t.differed != 0;
        if (!divided[task]) return g.order.verifiers * v + (c.winner == address(0) ? w : 0);
        owed = v * _unpaid(task, t.differed, g.order.verifiers);
        if (verifiers) owed += w / _count(t.differed) * _unpaid(task, t.differed, 64);
        else if (c.winner == address(0) && !c.slashed) owed += w;
    }

    function penaltyOf(bytes32 task) external view returns (uint256) {
        return Terms.penalty(p, _ghosts[task].price);
    }

    function collateralOf(bytes32 task) external view returns (uint256) {
        Ghost memory g = _ghosts[task];
        return Terms.collateral(p, g.price, g.order.verifiers, g.order.checkFee);
    }

    function rewardOf(bytes32 task) external view returns (uint256) {
        return Terms.reward(p, _ghosts[task].price);
    }

    function gChunk() external view returns (uint256) {
        return p.gChunk;
    }

    function priceAt(Order memory order, uint256 blockNumber) external pure returns (uint256) {
        return _price(order, blockNumber);
    }

    // ---- Inside ----

    /// @dev Sends a message while the token refuses every transfer (invariant 6), and checks what it did to the task.
    function _run(bytes32 task, address caller, bytes memory message) private returns (bool done) {
        Ghost storage g = _ghosts[task];
        State before = market.taskAt(task).state;
        int256[] memory balances = _balances();
        vm.mockCallRevert(address(token), abi.encodeWithSelector(IERC20.transfer.selector), "frozen");
        vm.mockCallRevert(address(token), abi.encodeWithSelector(IERC20.transferFrom.selector), "frozen");
        vm.prank(caller);
        (done,) = address(market).call(message);
        vm.clearMockedCalls();
        if (done && before == State.Convicted) {
            bytes4 selector = bytes4(message);
            if (selector == market.settle.selector || selector == market.slash.selector) divided[task] = true;
        }
        _checkEnd(task, g, before, balances);
    }

    function _checkEnd(bytes32 task, Ghost storage g, State before, int256[] memory balances) private {
        State state = market.taskAt(task).state;
        if (state == before || state < State.Final) return;
        (g.ends, g.end) = (g.ends + 1, state);
        int256 burned;
        int256 others;
        for (uint256 i; i < accounts.length; ++i) {
            int256 gain = int256(_balance(accounts[i])) - balances[i];
            if (accounts[i] == g.order.client) {
                int256 back = int256(_escrow(g.order) + g.demanded * p.gChunk);
                if (state != State.Final) assertEq(gain, back, "invariant 4: the whole escrow, at once");
            } else if (i == 8) {
                burned = gain;
            } else if (accounts[i] != market.taskAt(task).executor) {
                others += gain;
            }
        }
        if (state == State.Failed) assertEq(burned, int256(Terms.penalty(p, g.price)), "invariant 7: burned");
        if (state != State.Convicted) assertEq(others, 0, "invariant 7: nobody else gains");
    }

    function _endGame(uint256 gameId, bool executorLost) private {
        Position memory position = _positions[gameId];
        Ghost storage g = _ghosts[position.task];
        bool inTime = block.number < position.since + position.executorLeft;
        State before = market.taskAt(position.task).state;
        int256[] memory balances = _balances();
        if (!executorLost && inTime) {
            position = _publish(gameId, position, g.order);
            if (before == State.Revealed) lostByChallenger[gameId] = true;
            vm.roll(position.since + position.challengerLeft);
        } else if (inTime) {
            vm.roll(position.since + position.executorLeft);
        }
        _over[gameId] = true;
        game.timeout(gameId, position.pack());
        _checkEnd(position.task, g, before, balances);
    }

    function _slash(bytes32 task, address caller) private {
        bool late = block.number > manager.lockOf(task, market.taskAt(task).executor).end;
        if (!_run(task, caller, abi.encodeCall(market.slash, (_ghosts[task].order)))) {
            bool done = market.convictionOf(task).slashed;
            assertTrue(done || _paused || block.number <= market.answersBy(task), "invariant 15: retried until END");
            return;
        }
        if (!late) _ghosts[task].slashes += 1;
    }

    function _track(bytes32 task, uint256 gameId, address by) private {
        _positions[gameId] = _opened(task, by);
        assertEq(uint8(_positions[gameId].phase), uint8(Phase.Publish), "phase");
        _ghosts[task].games.push(gameId);
    }

    function _stake(address who) private {
        token.mint(who, 100 ether);
        vm.startPrank(who);
        token.approve(address(core.strategyManager), 100 ether);
        core.strategyManager.depositIntoStrategy(core.strategy, token, 100 ether);
        vm.stopPrank();
    }

    function _balances() private view returns (int256[] memory balances) {
        balances = new int256[](accounts.length);
        for (uint256 i; i < accounts.length; ++i) {
            balances[i] = int256(_balance(accounts[i]));
        }
    }

    /// @dev What a hidden answer opens to: it was one of two roots.
    function _rootOf(bytes32 task, uint256 index) private view returns (bytes32) {
        Answer memory a = market.answerOf(task, index);
        bool honest = a.claim == _commitmentOf(task, a.operator, index + 1, _honest, SALT);
        return honest ? _honest : WRONG;
    }

    /// @dev Invariant 22: as the protocol says, by asking everybody for its seats.
    function _mayBeRevealed(bytes32 task) private view returns (bool) {
        Order memory order = _ghosts[task].order;
        (bool known, bool drawn) = market.isDrawn(order);
        if (!known || !drawn || block.number > _checkBy(task)) return known;
        for (uint256 i; i < 16 * uint256(order.verifiers); ++i) {
            (address holder, uint256 since) = manager.seatAt(market.seatOf(task, i));
            bool able = (holder == accounts[4] || holder == accounts[5]) && since < market.taskAt(task).committedAt;
            if (able && !_hasAnswered(task, holder)) return false;
        }
        return market.taskAt(task).answered != 0;
    }

    function _hasAnswered(bytes32 task, address by) private view returns (bool) {
        for (uint256 i; i < 64; ++i) {
            if (market.answerOf(task, i).operator == by) return true;
        }
        return false;
    }

    /// @dev Members of a set, of which the `n` lowest count, that `settle` has not paid.
    function _unpaid(bytes32 task, uint64 set, uint256 n) private view returns (uint256 unpaid) {
        uint256 rank;
        for (uint256 i; i < 64; ++i) {
            if (set >> i & 1 == 0) continue;
            if (rank++ < n && market.answerOf(task, i).stage != Stage.Paid) ++unpaid;
        }
    }

    function _count(uint64 set) private pure returns (uint256 n) {
        for (uint256 i; i < 64; ++i) {
            n += set >> i & 1;
        }
    }

    /// @dev Whether leaves are demanded and not shown.
    function _waits(bytes32 task) private view returns (bool) {
        return _ghosts[task].demanded != 0 && !_ghosts[task].shown;
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
        return accounts[who % 8];
    }
}
