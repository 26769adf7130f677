// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @dev A wallet that accepts what its owner signed.
contract Wallet is IERC1271 {
    address private immutable OWNER;

    constructor(address owner) {
        OWNER = owner;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return ECDSA.recover(hash, signature) == OWNER ? IERC1271.isValidSignature.selector : bytes4(0);
    }
}

contract OrdersTest is MarketFixture {
    function test_Post_TakesTheEscrowAndSaysEverything() public {
        Order memory order = _order();
        bytes32 task = market.taskOf(order);
        uint256 before = _balance(client);

        vm.expectEmit(address(market));
        emit ITaskMarket.Posted(task, client, order);
        vm.prank(client);
        market.post(order, "");

        _assertState(task, State.Open);
        assertEq(_balance(client), before - _escrow(order), "balance");
        assertEq(market.deadlineOf(task), 0, "an open task waits until acceptBy, which its order says");
    }

    function test_Post_ByTheClientTakesWhatItsBalanceLacksFromItsTokens() public {
        Order memory order = _order();
        order.client = makeAddr("new client");
        _prepay(order.client, 0.01 ether);
        token.mint(order.client, 1 ether);
        vm.startPrank(order.client);
        token.approve(address(market), 1 ether);

        vm.expectEmit(address(market));
        emit IMarket.Deposited(order.client, order.client, 0.051 ether);
        market.post(order, "");

        assertEq(token.balanceOf(order.client), 0.949 ether, "tokens");
        assertEq(_balance(order.client), 0, "balance");
    }

    function test_Post_ByAnybodyWithTheClientsSignature() public {
        Order memory order = _order();
        bytes32 task = market.taskOf(order);
        bytes memory signature = _sign(clientKey, task);
        vm.prank(anybody);
        market.post(order, signature);
        _assertState(task, State.Open);
    }

    function test_Post_ByAnybodyForAContractWallet() public {
        Order memory order = _order();
        order.client = address(new Wallet(client));
        _prepay(order.client, 1 ether);
        bytes32 task = market.taskOf(order);
        bytes memory signature = _sign(clientKey, task);
        vm.prank(anybody);
        market.post(order, signature);
        _assertState(task, State.Open);
        assertEq(_balance(order.client), 0.939 ether, "balance");
    }

    function test_RevertWhen_AContractWalletRefusesTheSignature() public {
        Order memory order = _order();
        order.client = address(new Wallet(anybody));
        _prepay(order.client, 1 ether);
        bytes32 task = market.taskOf(order);
        bytes memory signature = _sign(clientKey, task);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongSignature.selector, order.client, task));
        vm.prank(anybody);
        market.post(order, signature);
    }

    function test_RevertWhen_TheSignatureIsOfAnotherOrder() public {
        Order memory order = _order();
        bytes memory signature = _sign(clientKey, market.taskOf(order));
        order.minPrice += 1;
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongSignature.selector, client, market.taskOf(order)));
        vm.prank(anybody);
        market.post(order, signature);
    }

    function test_RevertWhen_TheSignatureIsNot65Bytes() public {
        Order memory order = _order();
        bytes32 task = market.taskOf(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongSignature.selector, client, task));
        vm.prank(anybody);
        market.post(order, "");
    }

    function test_RevertWhen_ASignedOrderIsNotPrepaid() public {
        Order memory order = _order();
        order.maxPrice = 11 ether;
        order.checkFee = Terms.checkFeeBound(p, order.maxPrice);
        token.mint(client, 100 ether);
        vm.prank(client);
        token.approve(address(market), 100 ether);
        bytes memory signature = _sign(clientKey, market.taskOf(order));
        vm.expectRevert(abi.encodeWithSelector(IMarket.InsufficientBalance.selector, client, 10 ether, 22.001 ether));
        vm.prank(anybody);
        market.post(order, signature);
    }

    function test_RevertWhen_PostedTwice() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.AlreadyPosted.selector, task));
        vm.prank(client);
        market.post(order, "");
    }

    function test_RevertWhen_PostedAgainAfterItsEnd() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        vm.startPrank(client);
        market.cancel(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.AlreadyPosted.selector, task));
        market.post(order, "");
    }

    function test_RevertWhen_TheCheckRateIsBelowTheFloorOrAboveOne() public {
        Order memory order = _order();
        order.checkRate = p.checkFloor - 1;
        bytes4 reason = IMarket.WrongCheckRate.selector;
        _assertRefused(order, abi.encodeWithSelector(reason, p.checkFloor - 1, p.checkFloor, 1e18));
        order.checkRate = 1e18 + 1;
        _assertRefused(order, abi.encodeWithSelector(reason, 1e18 + 1, p.checkFloor, 1e18));
        order.checkRate = 1e18;
        _assertState(_post(order), State.Open);
        order.checkRate = p.checkFloor;
        _assertState(_post(order), State.Open);
    }

    function test_RevertWhen_ThereAreNoVerifiersOrMoreThanFour() public {
        Order memory order = _order();
        order.verifiers = 0;
        _assertRefused(order, abi.encodeWithSelector(IMarket.WrongVerifiers.selector, 0, 4));
        order.verifiers = 5;
        _assertRefused(order, abi.encodeWithSelector(IMarket.WrongVerifiers.selector, 5, 4));
        order.verifiers = 4;
        _assertState(_post(order), State.Open);
    }

    function test_RevertWhen_TheCheckFeeDoesNotPayForACheck() public {
        Order memory order = _order();
        uint256 limit = type(uint96).max;
        uint256 floor = order.maxPrice + p.gChk;
        order.checkFee = floor - 1;
        _assertRefused(order, abi.encodeWithSelector(ITaskMarket.WrongCheckFee.selector, floor - 1, floor, limit));
        order.checkFee = limit + 1;
        _assertRefused(order, abi.encodeWithSelector(ITaskMarket.WrongCheckFee.selector, limit + 1, floor, limit));
    }

    function test_RevertWhen_TheValueAtRiskIsOutOfRange() public {
        Order memory order = _order();
        order.valueAtRisk = uint256(type(uint96).max) + 1;
        _assertRefused(
            order,
            abi.encodeWithSelector(ITaskMarket.WrongValueAtRisk.selector, order.valueAtRisk, order.valueAtRisk - 1)
        );
    }

    function test_RevertWhen_ExecIsZeroOrTooLong() public {
        Order memory order = _order();
        order.exec = 0;
        _assertRefused(order, abi.encodeWithSelector(IMarket.WrongExec.selector, 0, p.maxExec));
        order.exec = p.maxExec + 1;
        _assertRefused(order, abi.encodeWithSelector(IMarket.WrongExec.selector, p.maxExec + 1, p.maxExec));
    }

    function test_RevertWhen_NothingIsToBeExecuted() public {
        Order memory order = _order();
        order.repeat = 0;
        _assertRefused(order, abi.encodeWithSelector(ITaskMarket.ZeroRepeat.selector));
    }

    function test_RevertWhen_PricesAreOutOfOrderOrRange() public {
        Order memory order = _order();
        uint256 limit = type(uint96).max;
        order.minPrice = order.maxPrice + 1;
        _assertRefused(
            order, abi.encodeWithSelector(ITaskMarket.WrongPrices.selector, order.minPrice, order.maxPrice, limit)
        );
        order.maxPrice = limit + 1;
        _assertRefused(
            order, abi.encodeWithSelector(ITaskMarket.WrongPrices.selector, order.minPrice, order.maxPrice, limit)
        );
    }

    function test_RevertWhen_AcceptByIsOver() public {
        Order memory order = _order();
        order.acceptBy = uint64(block.number) - 1;
        _assertRefused(order, abi.encodeWithSelector(ITaskMarket.AcceptanceOver.selector, order.acceptBy, block.number));
    }

    /// @dev `taskOf` hashes words as they come; a word that is no value of its field must not become a task.
    function test_RevertWhen_AFieldHasMoreBitsThanItsType() public {
        uint256[9] memory narrow = [uint256(0), 2, 8, 11, 12, 14, 15, 17, 18];
        for (uint256 i; i < narrow.length; ++i) {
            bytes memory message = abi.encodeCall(ITaskMarket.post, (_order(), ""));
            message[4 + 32 * narrow[i]] = 0x01;
            vm.prank(client);
            (bool posted,) = address(market).call(message);
            assertFalse(posted);
        }
    }

    function test_PostMany_SkipsWhatIsPostedAlready() public {
        Order[] memory orders = new Order[](3);
        bytes[] memory signatures = new bytes[](3);
        for (uint256 i; i < 3; ++i) {
            orders[i] = _order();
            orders[i].nonce = i;
            signatures[i] = _sign(clientKey, market.taskOf(orders[i]));
        }
        _post(orders[1]);
        uint256 before = _balance(client);

        vm.prank(anybody);
        market.postMany(orders, signatures);

        assertEq(_balance(client), before - 2 * _escrow(orders[0]), "two escrows");
        for (uint256 i; i < 3; ++i) {
            _assertState(market.taskOf(orders[i]), State.Open);
        }
    }

    function test_RevertWhen_ABatchHasMoreOrdersThanSignatures() public {
        vm.expectRevert(abi.encodeWithSelector(IMarket.LengthMismatch.selector, 2, 1));
        market.postMany(new Order[](2), new bytes[](1));
    }

    function test_Cancel_GivesTheEscrowBack() public {
        Order memory order = _order();
        uint256 before = _balance(client);
        bytes32 task = _post(order);
        vm.expectEmit(address(market));
        emit ITaskMarket.Cancelled(task);
        vm.prank(client);
        market.cancel(order);
        _assertState(task, State.Cancelled);
        assertEq(_balance(client), before, "balance");
    }

    function test_RevertWhen_AnotherCancels() public {
        Order memory order = _order();
        _post(order);
        vm.expectRevert(abi.encodeWithSelector(IMarket.NotTheClient.selector, anybody, client));
        vm.prank(anybody);
        market.cancel(order);
    }

    function test_RevertWhen_CancelledAfterAcceptance() public {
        Order memory order = _order();
        bytes32 task = _post(order);
        _accept(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Open, State.Accepted));
        vm.prank(client);
        market.cancel(order);
    }

    function test_Expire_GivesTheEscrowBackAfterAcceptBy() public {
        Order memory order = _order();
        uint256 before = _balance(client);
        bytes32 task = _post(order);

        vm.roll(order.acceptBy);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, block.number, order.acceptBy));
        market.expire(order);

        vm.roll(order.acceptBy + 1);
        vm.expectEmit(address(market));
        emit ITaskMarket.Expired(task);
        vm.prank(anybody);
        market.expire(order);
        _assertState(task, State.Expired);
        assertEq(_balance(client), before, "balance");
    }

    function _assertRefused(Order memory order, bytes memory reason) private {
        vm.expectRevert(reason);
        vm.prank(client);
        market.post(order, "");
    }
}
