// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IBounty} from "../../src/interfaces/IBounty.sol";
import {IStrategyManager} from "../../src/interfaces/IEigenLayer.sol";
import {StakeFixture} from "../StakeFixture.sol";
import {Pausable} from "../core/Pausable.sol";
import {SlashedShares} from "../core/SlashedShares.sol";

/// @title How slashed stake is shared out when the core releases it, here 20 blocks after the slash
contract BountyTest is StakeFixture {
    address private finder = makeAddr("finder");
    address private another = makeAddr("another finder");

    function test_Pay_BurnsHalfAndCreditsTheRest() public {
        uint256 slashed = _convict(TASK, 0.1 ether + 2, finder, another);
        (bytes32 task, uint256 amount, address[] memory beneficiaries) = bounty.noteOf(1);
        assertEq(task, TASK, "task");
        assertEq(amount, slashed, "one wei a share");
        assertEq(beneficiaries.length, 2, "beneficiaries");
        vm.roll(block.number + 21);
        uint256 share = slashed / 2 / 2;
        vm.expectEmit(address(bounty));
        emit IBounty.Paid(1, TASK, share, slashed - 2 * share);
        vm.prank(anybody);
        bounty.pay(1);
        assertEq(_balance(finder), share, "finder");
        assertEq(_balance(another), share, "another");
        assertEq(_balance(market.BURN()), slashed - 2 * share, "burned");
        assertApproxEqAbs(_balance(market.BURN()), slashed / 2, 2, "half");
        assertEq(token.balanceOf(address(bounty)), 0, "nothing stays");
    }

    function test_Pay_BurnsEverythingWithoutBeneficiaries() public {
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        (, uint256 slashed) = _slash(TASK, operator);
        vm.roll(block.number + 21);
        bounty.pay(1);
        assertEq(_balance(market.BURN()), slashed, "burned");
    }

    function test_Pay_WaitsForTheCore() public {
        _convict(TASK, 0.1 ether, finder, another);
        vm.roll(block.number + 20);
        vm.expectRevert(SlashedShares.SlashResolutionDelayNotElapsed.selector);
        bounty.pay(1);
        vm.roll(block.number + 1);
        bounty.pay(1);
        vm.expectRevert(abi.encodeWithSelector(IBounty.NothingNoted.selector, 1));
        bounty.pay(1);
    }

    function test_Pay_DoesNotCareWhoHadItReleased() public {
        uint256 first = _convict(TASK, 0.1 ether, finder, another);
        uint256 second = _convict("second", 0.3 ether, another, another);
        vm.roll(block.number + 21);
        core.strategyManager.clearBurnOrRedistributableShares(_set(), 2);
        core.strategyManager.clearBurnOrRedistributableShares(_set(), 1);
        assertEq(token.balanceOf(address(bounty)), first + second, "arrived");
        bounty.pay(1);
        assertEq(_balance(finder), first / 4, "out of its own slash only");
        assertEq(token.balanceOf(address(bounty)), second, "the other waits");
        bounty.pay(2);
        assertEq(_balance(another), first / 4 + 2 * (second / 4), "named twice, paid twice");
        assertEq(_balance(market.BURN()), first + second - first / 4 - _balance(another), "burned");
    }

    /// @dev The core releases nothing while it is paused, but what is here already is the finders'.
    function test_Pay_WhileTheCoreIsPausedIfItWasReleased() public {
        uint256 slashed = _convict(TASK, 0.1 ether, finder, another);
        _convict("second", 0.1 ether, finder, another);
        vm.roll(block.number + 21);
        core.strategyManager.clearBurnOrRedistributableShares(_set(), 1);
        core.strategyManager.pause(2);
        bounty.pay(1);
        assertEq(_balance(finder), slashed / 4, "paid");
        vm.expectRevert(Pausable.CurrentlyPaused.selector);
        bounty.pay(2);
    }

    /// @dev From that block on and not before.
    function test_PayableFrom_IsTheFirstBlockOfPay() public {
        assertEq(bounty.payableFrom(1), 0, "nothing is owed");
        _convict(TASK, 0.1 ether, finder, another);
        uint256 first = bounty.payableFrom(1);
        assertEq(first, block.number + 21, "the core's delay, and a block");
        vm.roll(first - 1);
        vm.expectRevert(SlashedShares.SlashResolutionDelayNotElapsed.selector);
        bounty.pay(1);
        vm.roll(first);
        bounty.pay(1);
        assertEq(bounty.payableFrom(1), 0, "nothing waits");
    }

    /// @dev A core before 1.13 has no such block.
    function test_PayableFrom_IsAtOnceWhereTheCoreDoesNotWait() public {
        _convict(TASK, 0.1 ether, finder, another);
        vm.mockCallRevert(
            address(core.strategyManager), abi.encodeWithSelector(IStrategyManager.getSlashResolutionBlock.selector), ""
        );
        assertEq(bounty.payableFrom(1), 0, "at once");
    }

    /// @dev A donation to the strategy after the slash: beneficiaries get what was noted, nothing stays behind.
    function test_Pay_BurnsWhatTheSharesHaveGained() public {
        uint256 first = _convict(TASK, 0.1 ether, finder, another);
        _convict("second", 0.1 ether, finder, another);
        token.mint(address(core.strategy), 1 ether);
        vm.roll(block.number + 21);
        bounty.pay(2);
        assertGt(token.balanceOf(address(bounty)), 0, "its gain waits for the other");
        bounty.pay(1);
        assertApproxEqAbs(_balance(finder), first / 2, 4, "as noted");
        assertEq(token.balanceOf(address(bounty)), 0, "nothing stays");
    }

    function test_RevertWhen_NothingWasNoted() public {
        vm.expectRevert(abi.encodeWithSelector(IBounty.NothingNoted.selector, 7));
        bounty.pay(7);
    }

    function test_RevertWhen_SomebodyElseNotes() public {
        vm.expectRevert(abi.encodeWithSelector(IBounty.NotTheServiceManager.selector, anybody));
        vm.prank(anybody);
        bounty.note(1, TASK, 1, nobody);
    }

    function _convict(bytes32 task, uint256 amount, address one, address two) private returns (uint256 shares) {
        address[] memory beneficiaries = new address[](2);
        (beneficiaries[0], beneficiaries[1]) = (one, two);
        _lock(task, operator, amount, block.number + 10);
        vm.prank(address(market));
        (, shares) = manager.slash(task, operator, beneficiaries);
    }
}
