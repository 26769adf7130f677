// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Parameters} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";

contract TermsTest is Test {
    function test_Price_AtTheEdgesOfTheRamp() public pure {
        assertEq(Terms.price(10, 30, 100, 20, 0), 10, "long before");
        assertEq(Terms.price(10, 30, 100, 20, 99), 10, "before");
        assertEq(Terms.price(10, 30, 100, 20, 100), 10, "at the start");
        assertEq(Terms.price(10, 30, 100, 20, 101), 11, "one block in");
        assertEq(Terms.price(10, 29, 100, 20, 101), 10, "rounded down");
        assertEq(Terms.price(10, 30, 100, 20, 119), 29, "one block to go");
        assertEq(Terms.price(10, 30, 100, 20, 120), 30, "at the end");
        assertEq(Terms.price(10, 30, 100, 20, type(uint64).max), 30, "long after");
        assertEq(Terms.price(10, 30, 100, 0, 99), 10, "before a step");
        assertEq(Terms.price(10, 30, 100, 0, 100), 30, "at a step");
        assertEq(Terms.price(10, 30, 0, 0, 0), 30, "no ramp");
        assertEq(Terms.price(10, 30, type(uint64).max, type(uint64).max, type(uint64).max), 10, "no overflow");
    }

    function testFuzz_Price_StaysInBoundsAndNeverFalls(
        uint96 a,
        uint96 b,
        uint64 rampStart,
        uint64 rampLength,
        uint64 blockNumber
    ) public pure {
        (uint256 low, uint256 high) = a < b ? (a, b) : (b, a);
        uint256 now_ = Terms.price(low, high, rampStart, rampLength, blockNumber);
        uint256 next = Terms.price(low, high, rampStart, rampLength, uint256(blockNumber) + 1);
        assertGe(now_, low, "lower bound");
        assertLe(next, high, "upper bound");
        assertLe(now_, next, "never falls");
    }

    function testFuzz_Penalty_LeavesSomethingOfTheCollateral(uint96 price, uint64 eta, uint96 gDef, uint96 gMiss)
        public
        pure
    {
        Parameters memory p;
        (p.eta, p.gDef, p.gMiss) = (uint64(bound(eta, 0, 1e18)), gDef, gMiss);
        uint256 reward = Terms.reward(p, price);
        uint256 penalty = Terms.penalty(p, price);
        assertEq(Terms.collateral(p, price, 3, 7), 2 * reward + 21, "K = 2W + n v");
        assertLe(penalty, reward, "h <= W");
        uint256 asked = uint256(price) * p.eta / 1e18 + gMiss;
        assertEq(penalty, asked < reward ? asked : reward, "h");
    }

    function test_Penalty_AtItsEdges() public pure {
        Parameters memory p;
        (p.eta, p.gDef, p.gMiss) = (0.25e18, 8, 10);
        assertEq(Terms.penalty(p, 0), 8, "held to W");
        assertEq(Terms.penalty(p, 3), 10, "rounded down");
        assertEq(Terms.penalty(p, 4), 11, "a quarter and the fixed part");
    }

    function testFuzz_Lifetime_IsTheSumOfItsWindows(uint24 exec, uint32 record, uint32 check, uint32 rest) public pure {
        Parameters memory p;
        (p.maxExec, p.lag, p.grid, p.record, p.check) = (exec, rest, rest, record, check);
        (p.reveal, p.challenge, p.clock, p.margin) = (rest, rest, rest, rest);
        uint256 e = exec;
        uint256 r = rest;
        uint256 waiting = e + check > record ? e + check : record;
        assertEq(Terms.revealWindow(p, e), waiting + r, "reveal");
        assertEq(Terms.challengeWindow(p, e), e + r, "challenge");
        assertEq(Terms.lifetime(p, e), 4 * e + waiting + 7 * r, "END - accept");
    }

    /// @dev The column s/P of the protocol, for r = 1/3, n = 1 and a margin of 1.25.
    function test_Stake_ForEachCheckRate() public pure {
        Parameters memory p = _stakes();
        assertEq(Terms.stake(p, 1 ether, 0, 0.05e18, 1) / 1e16, 7250, "5 %");
        assertEq(Terms.stake(p, 1 ether, 0, 0.1e18, 1) / 1e16, 3500, "10 %");
        assertEq(Terms.stake(p, 1 ether, 0, 0.2e18, 1) / 1e16, 1625, "20 %");
        assertEq(Terms.stake(p, 1 ether, 0, 0.5e18, 1) / 1e16, 500, "50 %");
        assertEq(Terms.stake(p, 1 ether, 0, 1e18, 1) / 1e16, 124, "always");
        assertEq(Terms.stake(p, 0, 0, 1e18, 4), p.minStake, "never below s_min");
    }

    /// @dev Invariant 8 in numbers: cheating for P + X loses on average, also for who challenges itself.
    function testFuzz_Stake_MakesCheatingALoss(uint96 price, uint96 risk, uint64 rate, uint8 verifiers) public pure {
        Parameters memory p = _stakes();
        rate = uint64(bound(rate, 0.05e18, 1e18));
        verifiers = uint8(bound(verifiers, 1, 4));
        uint256 a = Terms.detection(rate, verifiers, p.sybils);
        assertLe(a, rate, "a <= rate");
        assertGe(a * 3, uint256(rate) * 2 - 10, "r is a third");
        uint256 s = Terms.stake(p, price, risk, rate, verifiers);
        uint256 gain = (1e18 - a) * (uint256(price) + risk);
        assertGe(a * s / 2, gain + gain / 4, "margin 1.25");
    }

    function testFuzz_Bond_ExceedsTheShareByATenth(uint96 price, uint96 gDef) public pure {
        Parameters memory p;
        p.gDef = gDef;
        uint256 share = Terms.bondShare(p, price);
        uint256 bond = Terms.bond(p, price);
        assertGe(10 * bond, 11 * share, "1.1 W");
        assertLt(10 * bond, 11 * share + 10, "rounded up");
    }

    function testFuzz_SeedBlock_IsTheFirstOfTheGridAfterTheLag(uint32 at, uint32 lag, uint32 grid) public pure {
        Parameters memory p;
        (p.lag, p.grid) = (lag, uint32(bound(grid, 1, type(uint32).max)));
        uint256 s = Terms.seedBlock(p, at);
        assertEq(s % p.grid, 0, "on the grid");
        assertGe(s, uint256(at) + lag, "after the lag");
        assertLt(s, uint256(at) + lag + p.grid, "the first");
    }

    function testFuzz_IsDrawn_FollowsTheRate(bytes32 mix, bytes32 task, uint64 rate) public pure {
        uint256 value = uint256(keccak256(abi.encode(mix, task, "draw"))) % 1e18;
        assertEq(Terms.isDrawn(mix, task, rate), value < rate, "drawn");
        assertFalse(Terms.isDrawn(mix, task, 0), "never");
        assertTrue(Terms.isDrawn(mix, task, 1e18), "always");
    }

    function _stakes() private pure returns (Parameters memory p) {
        (p.sybils, p.stakeMargin, p.minStake) = (333_333_333_333_333_333, 1.25e18, 0.01 ether);
    }
}
