// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IDisputeGame, Position} from "../../src/interfaces/IDisputeGame.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Cause, Conviction, Leaf, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Moves} from "../../src/libraries/Moves.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {GameFixture} from "../GameFixture.sol";

/// @title Known attacks on disputes, played with real programs against the deployed contracts and the real referee
/// @notice Numbers as in the README's list of attacks; who pays whom is held to the wei.
contract GameAttacksTest is GameFixture {
    uint256 private constant FUNDS = 10 ether; // everybody's in the market; `anybody` gets them here

    function setUp() public override {
        super.setUp();
        _prepay(anybody, FUNDS);
    }

    /// @dev An executor that shows what was asked for up to some move, and then nothing: it pays as for the lie.
    function test_Attack08_AnExecutorThatStopsShowingLosesAtEveryMove() public {
        Script memory script = _script(LIE);
        (Order memory order, bytes32 task) = _claimed(script, 1);
        uint256 start = vm.snapshotState();
        uint256 stops;
        for (uint256 played; played <= script.moves.length; ++played) {
            (uint256 gameId, Position memory position) = _challenge(order, rival);
            position = _playOn(gameId, position, order, script, 0, played);
            if (Moves.isExecutors(position.phase)) {
                ++stops;
                _executorLoses(gameId, position);
                _assertConviction(order, task, rival);
            }
            vm.revertToState(start);
        }
        assertEq(stops, 3, "publish, leaf, borders");
    }

    /// @dev Outputs that its client cannot get: a demand for one leaf is enough, and costs the client nothing.
    function test_Attack08_OutputsWithheldFromTheClientConvict() public {
        (Order memory order, bytes32 task) = _claimed(_script(LIE), 1);
        vm.prank(client);
        market.demand(order, new Leaf[](1));
        assertEq(_balance(client), FUNDS - _escrow(order) - p.gChunk, "prepaid");
        vm.roll(block.number + Terms.clock(p, order.exec) + 1);
        market.close(order);
        (Cause cause,,) = _conviction(task);
        assertEq(uint8(cause), uint8(Cause.Demand), "cause");
        assertEq(_balance(client), FUNDS, "escrow and prepayment are back at once");
        uint256 collateral = Terms.collateral(p, order.minPrice, order.verifiers, order.checkFee);
        uint256 reward = Terms.reward(p, order.minPrice);
        vm.prank(anybody);
        market.slash(order);
        vm.roll(block.number + 25);
        (, uint256 amount, address[] memory list) = bounty.noteOf(1);
        bounty.pay(1);
        assertEq(list.length, 0, "nobody won");
        assertEq(_balance(operator), FUNDS - collateral, "executor");
        assertEq(_balance(anybody), FUNDS + reward, "who slashes gets W");
        assertEq(_balance(market.BURN()), collateral - reward + amount, "all else is burned");
    }

    /// @dev Every side waits for its last block, from the commit to the verdict, and the executor asks for its stake back
    /// as soon as it has accepted: the slash still takes all of the lock.
    function test_Attack14_TheSlowestLifeEndsInAFullSlash() public {
        Script memory script = _script(LIE);
        Order memory order = _orderOf(script, 1);
        bytes32 task = _post(order);
        _accept(order);
        uint256 accepted = block.number;
        vm.startPrank(operator);
        _allocate(operator, address(manager), 0);
        vm.stopPrank();
        vm.roll(market.deadlineOf(task));
        _commit(task, script.outputs);
        uint256 seedBlock = market.seedBlockOf(task);
        vm.roll(seedBlock + p.record);
        _seed(order, false);
        vm.roll(market.deadlineOf(task));
        _reveal(order, 0, script.outputs);
        vm.roll(market.deadlineOf(task));
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        for (uint256 i; i <= script.moves.length; ++i) {
            (, uint256 left) = Moves.clock(position, block.number);
            vm.roll(position.since + left - 1);
            position = _playOn(gameId, position, order, script, i, i + 1);
        }
        uint256 end = accepted + Terms.lifetime(p, order.exec);
        assertEq(manager.lockOf(task, operator).end, end, "lock");
        assertLe(block.number, end - p.margin, "the margin is left for the slash");
        vm.roll(end);
        _assertConviction(order, task, rival);
    }

    /// @dev Invariant 29. In each block either the player can move or its clock can be called, never both, never neither.
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_Attack14_NoBlockIsBothPlayersOrNobodys(uint256 number, uint256 waited) public {
        Script memory script = _script(LIE);
        (Order memory order,) = _claimed(script, 1);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        number = bound(number, 0, script.moves.length);
        position = _playOn(gameId, position, order, script, 0, number);
        (, uint256 left) = Moves.clock(position, block.number);
        waited = bound(waited, left < 3 ? 0 : left - 3, left + 2);
        vm.roll(position.since + waited);
        bytes memory data = _calldata(gameId, position, order, script, number);
        address mover = _moverOf(position);
        uint256 before = vm.snapshotState();
        vm.prank(mover);
        (bool moved,) = address(game).call(data);
        vm.revertToState(before);
        (bool called,) = address(game).call(abi.encodeCall(IDisputeGame.timeout, (gameId, position.pack())));
        assertEq(moved, waited < left, "move");
        assertEq(called, waited >= left, "clock");
    }

    /// @dev Whoever keeps the players' transactions out for less than their clocks, in whatever portions, changes no end
    /// and nobody's money.
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_Attack14_CensorshipWithinTheClocksChangesNothing(uint256 seed) public {
        Script memory script = _script(HOSTILE);
        (Order memory order, bytes32 task) = _claimed(script, 1);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        for (uint256 i; i <= script.moves.length; ++i) {
            (, uint256 left) = Moves.clock(position, block.number);
            vm.roll(block.number + uint256(keccak256(abi.encode(seed, i))) % left);
            position = _playOn(gameId, position, order, script, i, i + 1);
        }
        uint256 challengeBy = market.deadlineOf(task);
        if (block.number <= challengeBy) vm.roll(challengeBy + 1);
        market.close(order);
        _assertState(task, State.Final);
        assertEq(_balance(operator), FUNDS + order.minPrice + Terms.bondShare(p, order.minPrice), "executor");
        assertEq(_balance(rival), FUNDS - Terms.bond(p, order.minPrice), "challenger");
        assertEq(_balance(client), FUNDS - order.minPrice, "client");
    }

    /// @dev Invariants 8, 9. A liar's friend challenges first and has a true step judged: that verdict decides its own
    /// game and nothing else, and the share that the executor won is burned with its conviction.
    function test_Attack19_ABoughtChallengerLosesOnPurpose() public {
        Script memory lie = _script(LIE);
        Script memory bought = _script(BOUGHT);
        assertEq(bought.outputs, lie.outputs, "the same lie");
        (Order memory order, bytes32 task) = _claimed(lie, 1);
        (uint256 first, Position memory position) = _challenge(order, anybody);
        _playAll(first, position, order, bought);
        _assertState(task, State.Revealed);
        uint256 bond = Terms.bond(p, order.minPrice);
        uint256 share = Terms.bondShare(p, order.minPrice);
        assertEq(_balance(anybody), FUNDS - bond, "the friend's bond");
        assertEq(_balance(market.BURN()), bond - share, "the burned part");
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        market.close(order);

        (uint256 second, Position memory good) = _challenge(order, rival);
        _playAll(second, good, order, lie);
        _assertConvictionAfter(order, task, rival, bond);
        assertEq(_balance(anybody), FUNDS - bond, "nothing comes back");
    }

    /// @dev Both at once, the bought game ending first or last: neither order saves the liar.
    function test_Attack19_ABoughtGameThatEndsLaterSavesNobody() public {
        (Script memory lie, Script memory bought) = (_script(LIE), _script(BOUGHT));
        uint256 last = bought.moves.length;
        (Order memory order, bytes32 task) = _claimed(lie, 1);
        (uint256 first, Position memory bad) = _challenge(order, anybody);
        (uint256 second, Position memory good) = _challenge(order, rival);
        bad = _playOn(first, bad, order, bought, 0, last - 1);
        _playAll(second, good, order, lie);
        _assertState(task, State.Convicted);
        bad = _playOn(first, bad, order, bought, last - 1, last + 1);
        assertEq(bad.task, 0, "the verdict came");
        market.refund(order, first);
        assertEq(_balance(anybody), FUNDS, "it was open at the conviction: its bond is back");
        _assertConviction(order, task, rival);
    }

    /// @dev Invariant 28. A client posts programs made to trip arithmetic, and hunts the stakes of those who execute them:
    /// the referee finds what an honest executor found, and each try costs the client price and bond.
    function test_Attack25_HostileProgramsAsABountyHunt() public {
        uint256 count = _scripts() - HOSTILE;
        assertGt(count, 6, "programs");
        uint256 stake = core.delegationManager.operatorShares(operator, core.strategy);
        (uint256 price, uint256 bond, uint256 share) = (_order().minPrice, 0, 0);
        for (uint256 i; i < count; ++i) {
            Script memory script = _script(HOSTILE + i);
            (Order memory order, bytes32 task) = _claimed(script, i + 1);
            (bond, share) = (Terms.bond(p, price), Terms.bondShare(p, price));
            (uint256 gameId, Position memory position) = _challenge(order, client);
            _playAll(gameId, position, order, script);
            _pass(task);
            market.close(order);
            _assertState(task, State.Final);
        }
        assertEq(_balance(operator), FUNDS + count * (price + share), "paid for the work and for the defence");
        assertEq(_balance(client), FUNDS - count * (price + bond), "the hunter");
        assertEq(_balance(market.BURN()), count * (bond - share), "burned");
        assertEq(_held(operator) + _held(client), 0, "nothing is held");
        assertEq(core.delegationManager.operatorShares(operator, core.strategy), stake, "stake");
        assertEq(manager.lockedStake(operator), 0, "and it is free");
    }

    // ---- Who pays whom at a conviction ----

    function _assertConviction(Order memory order, bytes32 task, address winner) private {
        _assertConvictionAfter(order, task, winner, 0);
    }

    /// @dev Everything that a conviction by `winner` moves, until the slash is paid out; `burned`: by what came before.
    function _assertConvictionAfter(Order memory order, bytes32 task, address winner, uint256 burned) private {
        _assertState(task, State.Convicted);
        (Cause cause, address named,) = _conviction(task);
        assertEq(uint8(cause), uint8(Cause.Verdict), "cause");
        assertEq(named, winner, "winner");
        assertEq(_balance(client), FUNDS, "the whole escrow, before anything else happens");
        uint256 reward = Terms.reward(p, order.minPrice);
        uint256 collateral = Terms.collateral(p, order.minPrice, order.verifiers, order.checkFee);
        assertEq(_balance(winner), FUNDS + reward, "W, and the bond");
        assertEq(_balance(operator), FUNDS - collateral, "K");
        assertEq(_held(operator) + _held(winner), 0, "nothing is held");

        uint256 amount = _slash(order, task);
        assertEq(_balance(winner), FUNDS + reward + amount / 2, "half of the slash");
        burned += collateral - reward + amount - amount / 2;
        assertEq(_balance(market.BURN()), burned, "the rest of K, and the other half");
    }

    /// @dev Slashes and pays the bounty, `amount` in all.
    function _slash(Order memory order, bytes32 task) private returns (uint256 amount) {
        uint256 locked = manager.lockOf(task, operator).shares;
        uint256 stake = core.delegationManager.operatorShares(operator, core.strategy);
        if (block.number <= market.answersBy(task)) vm.roll(market.answersBy(task) + 1);
        market.slash(order);
        uint256 slashed = stake - core.delegationManager.operatorShares(operator, core.strategy);
        assertApproxEqAbs(slashed, locked, 1_024, "the lock");
        uint256 s = Terms.stake(p, order.minPrice, 0, order.checkRate, order.verifiers);
        assertGe(slashed, s, "s");
        vm.roll(block.number + 25);
        (, amount,) = bounty.noteOf(1);
        bounty.pay(1);
    }

    function _conviction(bytes32 task) private view returns (Cause cause, address winner, bool slashed) {
        Conviction memory c = market.convictionOf(task);
        return (c.cause, c.winner, c.slashed);
    }
}
