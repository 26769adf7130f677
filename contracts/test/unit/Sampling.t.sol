// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Order} from "../../src/interfaces/ITaskMarket.sol";
import {Headers} from "../../src/libraries/Headers.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";
import {TestHeaders} from "../TestHeaders.sol";

/// @title Seeds, and what they decide: invariants 19 and 20
contract SamplingTest is MarketFixture {
    bytes32 private constant MIX = keccak256("mix");
    uint256 private s;

    function setUp() public override {
        super.setUp();
        s = block.number + 3;
    }

    function test_Seed_IsReadOutOfTheHeaderOfItsBlock() public {
        bytes memory header = _remembered(s, MIX);
        vm.expectEmit(address(market));
        emit ITaskMarket.Seeded(s, MIX);
        vm.prank(anybody);
        market.seed(s, header);
        assertEq(market.seedOf(s), MIX, "mix");
    }

    function test_Seed_ASecondRecordChangesNothing() public {
        _seedWith(s, MIX);
        vm.recordLogs();
        market.seed(s, "anything");
        vm.roll(s + p.record + 100);
        market.seed(s, TestHeaders.encode(s, keccak256("other")));
        assertEq(vm.getRecordedLogs().length, 0, "no event");
        assertEq(market.seedOf(s), MIX, "mix");
    }

    function test_Seed_OfABlockThatOnlyTheHistoryContractRemembers() public {
        p.record = 300;
        market = _marketWith();
        bytes memory header = TestHeaders.encode(s, MIX);
        vm.roll(s + 300);
        vm.setBlockhash(s, 0);
        vm.mockCall(Headers.HISTORY, abi.encode(s), abi.encode(keccak256(header)));
        market.seed(s, header);
        assertEq(market.seedOf(s), MIX, "mix");
    }

    function test_RevertWhen_TheChainDoesNotRememberTheBlock() public {
        p.record = 300;
        market = _marketWith();
        bytes memory header = TestHeaders.encode(s, MIX);
        vm.roll(s + 300);
        vm.mockCallRevert(Headers.HISTORY, abi.encode(s), "");
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongHeader.selector, s, 0, keccak256(header)));
        market.seed(s, header);
    }

    function test_RevertWhen_TheHeaderIsAnothers() public {
        bytes memory header = _remembered(s, MIX);
        bytes memory other = TestHeaders.encode(s, keccak256("other"));
        vm.expectRevert(
            abi.encodeWithSelector(ITaskMarket.WrongHeader.selector, s, keccak256(header), keccak256(other))
        );
        market.seed(s, other);
    }

    /// @dev A chain that remembered a header under another number would be broken: its word is not taken.
    function test_RevertWhen_TheHeaderHasAnotherNumber() public {
        bytes memory header = TestHeaders.encode(s + 1, MIX);
        vm.roll(s + 1);
        vm.setBlockhash(s, keccak256(header));
        vm.expectPartialRevert(ITaskMarket.WrongHeader.selector);
        market.seed(s, header);
    }

    function test_RevertWhen_TheChainHasNoRandomness() public {
        bytes memory header = _remembered(s, 0);
        vm.expectPartialRevert(ITaskMarket.WrongHeader.selector);
        market.seed(s, header);
    }

    function test_RevertWhen_TheSeedIsEarlyOrLate() public {
        bytes memory header = TestHeaders.encode(s, MIX);
        vm.roll(s);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, s, s));
        market.seed(s, header);
        vm.roll(s + p.record + 1);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooLate.selector, s + p.record + 1, s + p.record));
        market.seed(s, header);
        vm.roll(s + p.record);
        vm.setBlockhash(s, keccak256(header));
        market.seed(s, header);
        assertEq(market.seedOf(s), MIX, "in the last block");
    }

    function test_RevertWhen_TheBlockIsNotOnTheGrid() public {
        p.grid = 7;
        market = _marketWith();
        uint256 off = s - s % 7 + 1;
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.NotASeedBlock.selector, off));
        market.seed(off, "");
    }

    /// @dev Numbers of one to nine bytes, and fields of all sizes around them.
    function testFuzz_Headers_FindNumberAndMix(uint64 number, bytes32 mix) public {
        vm.assume(mix != 0);
        number = uint64(bound(number, 1, type(uint64).max - 1));
        vm.roll(uint256(number) + 1);
        bytes memory header = _remembered(number, mix);
        assertEq(this.mixOf(number, header), mix, "mix");
    }

    /// @dev Invariant 19: a function of the seed, the task and the seats at the commit.
    function testFuzz_TheDraw_DependsOnSeedTaskAndSeatsOnly(bytes32 mix, uint64 rate, uint256 nonce) public {
        vm.assume(mix != 0);
        Order memory order = _order();
        (order.checkRate, order.nonce) = (uint64(bound(rate, p.checkFloor, 1e18)), nonce);
        order.checkRate = order.checkRate < 0.1e18 ? 0.1e18 : order.checkRate;
        bytes32 task = _post(order);
        (bool known,) = market.isDrawn(order);
        assertFalse(known, "before the commit");
        _accept(order);
        _commit(task);
        vm.roll(block.number + 1);
        _enlistMore();
        _seedWith(market.seedBlockOf(task), mix);

        bool drawn;
        (known, drawn) = market.isDrawn(order);
        assertTrue(known, "known");
        assertEq(drawn, uint256(keccak256(abi.encode(mix, task, "draw"))) % 1e18 < order.checkRate, "drawn");
        for (uint256 i; i < 16; ++i) {
            uint256 seat = uint256(keccak256(abi.encode(mix, task, i))) % 3;
            assertEq(market.seatOf(task, i), seat, "of the three seats at the commit");
        }
    }

    function test_RevertWhen_AskedForASeatBeforeTheSeed() public {
        (, bytes32 task) = _postAndAccept();
        _commit(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NoSeed.selector, market.seedBlockOf(task)));
        market.seatOf(task, 0);
        assertGe(market.seedBlockOf(task), block.number + p.lag, "invariant 20");
    }

    /// @dev All tasks of a seed block share its seed.
    function test_Seed_IsRecordedOnceForAllTasksOfItsBlock() public {
        Order memory first = _order();
        Order memory second = _order();
        second.nonce = 2;
        _post(first);
        _post(second);
        _accept(first);
        _accept(second);
        _commit(market.taskOf(first));
        _commit(market.taskOf(second));
        _seed(first, false);
        (bool known,) = market.isDrawn(second);
        assertTrue(known, "of the other as well");
    }

    function mixOf(uint256 number, bytes calldata header) external view returns (bytes32) {
        return Headers.mixOf(number, header);
    }

    function _remembered(uint256 number, bytes32 mix) private returns (bytes memory header) {
        if (block.number <= number) vm.roll(number + 1);
        header = TestHeaders.encode(number, mix);
        vm.setBlockhash(number, keccak256(header));
    }

    function _enlistMore() private {
        address late = makeAddr("late");
        _join(late, late, 1 ether);
        _enlist(late, 1);
    }
}
