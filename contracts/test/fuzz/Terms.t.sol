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
        assertEq(Terms.collateral(p, price), 2 * reward, "K = 2W");
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
        Parameters memory p = Parameters(exec, rest, rest, record, check, rest, rest, rest, rest, 0, 0, 0);
        uint256 e = exec;
        uint256 r = rest;
        uint256 waiting = e + check > record ? e + check : record;
        assertEq(Terms.revealWindow(p, e), waiting + r, "reveal");
        assertEq(Terms.challengeWindow(p, e), e + r, "challenge");
        assertEq(Terms.lifetime(p, e), 4 * e + waiting + 7 * r, "END - accept");
    }
}
