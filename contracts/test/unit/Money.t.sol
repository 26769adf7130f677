// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {TaskMarket} from "../../src/TaskMarket.sol";
import {IStrategy} from "../../src/interfaces/IEigenLayer.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {TestToken} from "../core/TestToken.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @dev Calls somebody before each transfer is booked.
contract CallingToken is TestToken {
    address private _target;
    bytes private _data;
    bool public succeeded;
    bytes public answer;

    function callAtTransfer(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    function _update(address from, address to, uint256 amount) internal override {
        if (_target != address(0)) {
            address target = _target;
            _target = address(0);
            (succeeded, answer) = target.call(_data);
        }
        super._update(from, to, amount);
    }
}

contract MoneyTest is MarketFixture {
    function test_Deposit_CreditsAnotherAccount() public {
        token.mint(anybody, 3 ether);
        vm.startPrank(anybody);
        token.approve(address(market), 3 ether);
        vm.expectEmit(address(market));
        emit IMarket.Deposited(client, anybody, 3 ether);
        market.deposit(client, 3 ether);
        assertEq(_balance(client), 13 ether, "balance");
        assertEq(token.balanceOf(anybody), 0, "tokens");
    }

    function test_Withdraw_PaysTheCallersBalanceOut() public {
        vm.expectEmit(address(market));
        emit IMarket.Withdrawn(client, anybody, 4 ether);
        vm.prank(client);
        market.withdraw(anybody, 4 ether);
        assertEq(_balance(client), 6 ether, "balance");
        assertEq(token.balanceOf(anybody), 4 ether, "tokens");
    }

    function test_RevertWhen_WithdrawingMoreThanTheBalance() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.InsufficientBalance.selector, client, 10 ether, 11 ether));
        vm.prank(client);
        market.withdraw(client, 11 ether);
    }

    function test_RevertWhen_WithdrawingWhatIsHeldAsCollateral() public {
        Order memory order = _order();
        _post(order);
        (, uint256 collateral) = _accept(order);
        vm.expectRevert(
            abi.encodeWithSelector(IMarket.InsufficientBalance.selector, operator, 10 ether - collateral, 10 ether)
        );
        vm.prank(operator);
        market.withdraw(operator, 10 ether);
    }

    function test_RevertWhen_DepositingForNobody() public {
        vm.expectRevert(IMarket.ZeroAddress.selector);
        market.deposit(address(0), 1);
    }

    /// @dev A token that hands control over must not get money out twice, nor out of a half-funded post.
    function test_RevertWhen_ATokenReentersAWithdrawal() public {
        (TaskMarket other, CallingToken calling) = _marketOf();
        calling.mint(address(this), 2 ether);
        calling.approve(address(other), 2 ether);
        other.deposit(address(this), 2 ether);

        calling.callAtTransfer(address(other), abi.encodeCall(IMarket.burn, ()));
        other.withdraw(anybody, 1 ether);
        _assertStopped(calling);
        assertEq(calling.balanceOf(anybody), 1 ether, "tokens");
        assertEq(other.accountOf(address(this)).balance, 1 ether, "balance");
    }

    function test_RevertWhen_ATokenReentersAPost() public {
        (TaskMarket other, CallingToken calling) = _marketOf();
        Order memory order = _order();
        order.client = address(this);
        calling.mint(address(this), 1 ether);
        calling.approve(address(other), 1 ether);
        Order memory second = _order();
        bytes memory signature = _sign(clientKey, other.taskOf(second));

        calling.callAtTransfer(address(other), abi.encodeCall(ITaskMarket.post, (second, signature)));
        other.post(order, "");
        _assertStopped(calling);
        assertEq(uint8(other.taskAt(other.taskOf(order)).state), uint8(State.Open), "the outer post went through");
    }

    function _marketOf() private returns (TaskMarket other, CallingToken calling) {
        calling = new CallingToken();
        IStrategy strategy = core.strategyFactory.deployNewStrategy(calling);
        vm.mockCall(address(manager), abi.encodeWithSignature("strategy()"), abi.encode(strategy));
        other = _marketWith();
        vm.clearMockedCalls();
    }

    function _assertStopped(CallingToken calling) private view {
        assertFalse(calling.succeeded(), "reentered");
        assertEq(bytes4(calling.answer()), ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector, "reason");
    }
}
