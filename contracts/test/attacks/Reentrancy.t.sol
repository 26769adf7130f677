// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {Admission, ITaskMarket, Leaf, LeafProof, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {MarketFixture} from "../MarketFixture.sol";
import {TestToken} from "../core/TestToken.sol";

/// @dev A token that hands control over before and after each transfer, as one with hooks for senders and recipients does.
/// It speaks as whoever it likes.
contract HookedToken is TestToken {
    address private _sender;
    address private _target;
    bytes private _data;
    bytes[] private _answers;
    uint256 public succeeded;

    function callInTransfers(address sender, address target, bytes calldata data) external {
        (_sender, _target, _data) = (sender, target, data);
        delete _answers;
        succeeded = 0;
    }

    function hook() external view returns (address, address, bytes memory) {
        return (_sender, _target, _data);
    }

    function answers() external view returns (bytes[] memory) {
        return _answers;
    }

    function _update(address from, address to, uint256 amount) internal override {
        _call();
        super._update(from, to, amount);
        _call();
    }

    function _call() private {
        if (_target == address(0)) return;
        (address target, bytes memory data) = (_target, _data);
        _target = address(0);
        VM.prank(_sender);
        (bool done, bytes memory answer) = target.call(data);
        if (done) ++succeeded;
        _answers.push(answer);
        _target = target;
    }

    Prank private constant VM = Prank(address(uint160(uint256(keccak256("hevm cheat code")))));
}

interface Prank {
    function prank(address sender) external;
}

/// @title Attack 28: whoever a token calls sends messages while tokens move
contract ReentrancyAttacks is MarketFixture {
    string private constant ABI = "out/TaskMarket.sol/TaskMarket.json";

    HookedToken private hooked;
    Order private order;
    bytes32 private task;

    function setUp() public override {
        super.setUp();
        hooked = HookedToken(address(token));
        (order, task) = _result(_outputs());
        _prepay(anybody, 1 ether);
    }

    function _newToken() internal override returns (TestToken) {
        return new HookedToken();
    }

    /// @dev An honest executor shows a demanded leaf while a challenger's bond is on its way. A task that was read before
    /// would be written back as it was: the demand open again, and nobody there to answer it.
    function test_Attack28_WhatIsShownDuringAChallengeStaysShown() public {
        vm.prank(client);
        market.demand(order, new Leaf[](1));
        bytes memory shown = abi.encodeCall(ITaskMarket.show, (order, new Leaf[](1), _proofs()));
        (uint256 gameId, Position memory position) = _challengeInside(signer, shown);
        if (hooked.succeeded() == 0) {
            vm.prank(signer);
            market.show(order, new Leaf[](1), _proofs());
        }
        hooked.callInTransfers(address(0), address(0), "");
        _challengerLoses(gameId, position, order);
        _pass(task);
        market.close(order);
        _assertState(task, State.Final);
    }

    /// @dev Invariant 42, by the contract's own list of functions: none that changes anything comes through.
    function test_Attack28_NoMessageComesThroughWhileTokensMove() public {
        string memory json = vm.readFile(ABI);
        bytes[] memory messages = _messages();
        assertEq(messages.length, _changing(json), "a message for each function that is not a view");
        uint256 start = vm.snapshotState();
        for (uint256 outer; outer < 5; ++outer) {
            for (uint256 i; i < messages.length; ++i) {
                address sender = i % 3 == 0 ? client : i % 3 == 1 ? signer : address(manager);
                hooked.callInTransfers(sender, address(market), messages[i]);
                _move(outer);
                _assertStopped();
                _assertConserved(0);
                vm.revertToState(start);
            }
        }
    }

    /// @dev Of the service manager: seats, whose deposits are money.
    function test_Attack28_NoSeatsChangeHandsWhileTokensMove() public {
        bytes[3] memory messages = [
            abi.encodeCall(IServiceManager.enlist, (operator, 0)),
            abi.encodeCall(IServiceManager.leave, (operator)),
            abi.encodeCall(IServiceManager.prune, (rival))
        ];
        _reallocate(rival, 0.5e18);
        for (uint256 i; i < 3; ++i) {
            hooked.callInTransfers(operator, address(manager), messages[i]);
            _move(0);
            _assertStopped();
        }
    }

    /// @dev Two slashes are owed. While the core's tokens for one arrive, the other is asked for: it would take them for a
    /// surplus and burn them.
    function test_Attack28_ABountyIsNotPaidInsideAnother() public {
        address[] memory finders = new address[](1);
        finders[0] = anybody;
        for (uint256 i; i < 2; ++i) {
            vm.startPrank(address(market));
            manager.lock(bytes32(i), rival, 0.1 ether, block.number + 10);
            manager.slash(bytes32(i), rival, finders);
            vm.stopPrank();
        }
        vm.roll(block.number + 25);
        (, uint256 amount,) = bounty.noteOf(1);
        uint256 before = _balance(anybody);
        hooked.callInTransfers(anybody, address(bounty), abi.encodeCall(bounty.pay, (2)));
        bounty.pay(1);
        _assertStopped();
        assertEq(_balance(anybody) - before, amount / 2, "the finder's half");
        hooked.callInTransfers(address(0), address(0), "");
        (, uint256 second,) = bounty.noteOf(2);
        bounty.pay(2);
        assertEq(_balance(anybody) - before, amount / 2 + second / 2, "of both");
        assertEq(token.balanceOf(address(bounty)), 0, "nothing stays");
    }

    /// @dev Any message inside any other, from anybody: tokens are where the books say, and an honest executor is paid.
    function testFuzz_Attack28_AnyMessageInsideAny(uint256 outer, uint256 inner, uint256 from, bool demanded) public {
        if (demanded) {
            vm.prank(client);
            market.demand(order, new Leaf[](1));
        }
        bytes[] memory messages = _messages();
        address[6] memory senders = [client, signer, operator, rival, anybody, address(game)];
        hooked.callInTransfers(senders[from % 6], address(market), messages[inner % messages.length]);
        _move(outer % 5);
        _assertConserved(demanded ? p.gChunk : 0);
        hooked.callInTransfers(address(0), address(0), "");
        if (demanded) market.show(order, new Leaf[](1), _proofs());
        if (outer % 5 == 4) _challengerLoses(1, _opened(task, anybody), order);
        _pass(task);
        market.close(order);
        _assertState(task, State.Final);
        _assertConserved(0);
    }

    // ---- Messages ----

    /// @dev One that moves tokens.
    function _move(uint256 outer) private {
        _mintQuietly();
        Order memory another = _order();
        (another.nonce, another.client) = (99, anybody);
        Order[] memory others = new Order[](1);
        others[0] = another;
        vm.prank(anybody);
        token.approve(address(market), type(uint256).max);
        // Without a prank that goes on, which the token could not break.
        if (outer > 1) {
            vm.prank(anybody);
            market.withdraw(anybody, 1 ether);
        }
        vm.prank(anybody);
        if (outer == 0) market.deposit(anybody, 1 ether);
        else if (outer == 1) market.withdraw(anybody, 0.5 ether);
        else if (outer == 2) market.post(another, "");
        else if (outer == 3) market.postMany(others, new bytes[](1));
        else market.challenge(anybody, order);
    }

    function _mintQuietly() private {
        (address sender, address target, bytes memory data) = hooked.hook();
        hooked.callInTransfers(address(0), address(0), "");
        token.mint(anybody, 5 ether);
        hooked.callInTransfers(sender, target, data);
    }

    function _challengeInside(address sender, bytes memory data)
        private
        returns (uint256 gameId, Position memory position)
    {
        token.mint(rival, 1 ether);
        vm.startPrank(rival);
        market.withdraw(rival, _balance(rival));
        token.approve(address(market), type(uint256).max);
        vm.stopPrank();
        hooked.callInTransfers(sender, address(market), data);
        return _challenge(order, rival);
    }

    /// @dev One of each function of the market that changes something.
    function _messages() private view returns (bytes[] memory messages) {
        Order[] memory orders = new Order[](1);
        orders[0] = order;
        bytes32[] memory tasks = new bytes32[](1);
        tasks[0] = task;
        Opening memory opening = Opening(task, 0, _outputs(), SALT);
        Opening[] memory openings = new Opening[](1);
        openings[0] = opening;
        messages = new bytes[](27);
        messages[0] = abi.encodeCall(IMarket.deposit, (anybody, 1));
        messages[1] = abi.encodeCall(IMarket.withdraw, (anybody, 1));
        messages[2] = abi.encodeCall(IMarket.burn, ());
        messages[3] = abi.encodeCall(ITaskMarket.post, (order, ""));
        messages[4] = abi.encodeCall(ITaskMarket.postMany, (orders, new bytes[](1)));
        messages[5] = abi.encodeCall(ITaskMarket.cancel, (order));
        messages[6] = abi.encodeCall(ITaskMarket.expire, (order));
        messages[7] = abi.encodeCall(ITaskMarket.accept, (operator, order, _nobodyElse()));
        messages[8] = abi.encodeCall(ITaskMarket.acceptMany, (operator, orders, new Admission[](1)));
        messages[9] = abi.encodeCall(ITaskMarket.commit, (operator, task, SALT));
        messages[10] = abi.encodeCall(ITaskMarket.commitMany, (operator, tasks, tasks));
        messages[11] = abi.encodeCall(ITaskMarket.seed, (block.number, ""));
        messages[12] = abi.encodeCall(ITaskMarket.answer, (rival, order, 0, SALT));
        messages[13] = abi.encodeCall(ITaskMarket.expose, (order, opening));
        messages[14] = abi.encodeCall(ITaskMarket.reveal, (order, opening));
        messages[15] = abi.encodeCall(ITaskMarket.revealMany, (orders, openings));
        messages[16] = abi.encodeCall(ITaskMarket.challenge, (client, order));
        messages[17] = abi.encodeCall(ITaskMarket.demand, (order, new Leaf[](1)));
        messages[18] = abi.encodeCall(ITaskMarket.show, (order, new Leaf[](1), _proofs()));
        messages[19] = abi.encodeCall(ITaskMarket.close, (order));
        messages[20] = abi.encodeCall(ITaskMarket.closeMany, (orders));
        messages[21] = abi.encodeCall(ITaskMarket.settle, (order, 0));
        messages[22] = abi.encodeCall(ITaskMarket.refund, (order, 1));
        messages[23] = abi.encodeCall(ITaskMarket.slash, (order));
        messages[24] = abi.encodeWithSignature(
            "onGameEnded(bytes32,uint256,address,bool,bool)", task, uint256(1), rival, true, true
        );
        messages[25] = abi.encodeCall(ITaskMarket.holdSeats, (operator, 1, 1 ether));
        messages[26] = abi.encodeCall(ITaskMarket.releaseSeats, (operator, 1, client));
    }

    /// @dev How many functions of the contract are no views.
    function _changing(string memory json) private view returns (uint256 count) {
        for (uint256 i; vm.keyExistsJson(json, _entry(i)); ++i) {
            string memory kind = vm.parseJsonString(json, string.concat(_entry(i), ".type"));
            if (keccak256(bytes(kind)) != keccak256("function")) continue;
            string memory mutability = vm.parseJsonString(json, string.concat(_entry(i), ".stateMutability"));
            if (keccak256(bytes(mutability)) == keccak256("nonpayable")) ++count;
        }
    }

    function _entry(uint256 index) private pure returns (string memory) {
        return string.concat(".abi[", vm.toString(index), "]");
    }

    // ---- A result of one output of one leaf ----

    function _proofs() private pure returns (LeafProof[] memory proofs) {
        proofs = new LeafProof[](1);
        (proofs[0].data, proofs[0].count, proofs[0].name) = (new bytes(1024), 1, "result");
        (proofs[0].dtype, proofs[0].elements) = (12, 256);
    }

    function _outputs() private pure returns (bytes32) {
        bytes32 tensor = Merkle.tensorRootOf(12, 256, Merkle.leafHash(new bytes(1024), 0));
        return Merkle.outputsRoot(Merkle.bindingsRootOf(1, Merkle.bindingHash(bytes("\x06result"), tensor)), 0);
    }

    // ---- What holds ----

    function _reallocate(address who, uint64 magnitude) private {
        vm.startPrank(who);
        _allocate(who, address(manager), magnitude);
        vm.stopPrank();
    }

    function _assertStopped() private view {
        bytes[] memory all = hooked.answers();
        assertEq(hooked.succeeded(), 0, "came through");
        assertGt(all.length, 0, "was called");
        for (uint256 i; i < all.length; ++i) {
            assertEq(bytes4(all[i]), ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector, "reason");
        }
    }

    /// @dev Invariant 1, while no bond is won; `demanded` is what the client prepaid.
    function _assertConserved(uint256 demanded) private view {
        address[7] memory all = [client, operator, rival, verifier, anybody, market.BURN(), address(this)];
        uint256 sum;
        for (uint256 i; i < all.length; ++i) {
            sum += _balance(all[i]) + _tied(all[i]);
        }
        uint256 escrows = token.balanceOf(address(market)) - sum;
        uint256 open = market.taskAt(task).state == State.Revealed ? _escrow(order) + demanded : 0;
        Order memory another = _order();
        assertTrue(escrows == open || escrows == open + _escrow(another), "tokens are where the books say");
    }
}
