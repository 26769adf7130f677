// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Core} from "../script/Checks.sol";
import {Deploy} from "../script/Deploy.s.sol";
import {Bounty} from "../src/Bounty.sol";
import {Channels} from "../src/Channels.sol";
import {DisputeGame} from "../src/DisputeGame.sol";
import {ServiceManager} from "../src/ServiceManager.sol";
import {TaskMarket} from "../src/TaskMarket.sol";
import {AllocateParams, OperatorSet, RegisterParams} from "../src/interfaces/IEigenLayer.sol";
import {Admission, Opening, Order, Parameters, State} from "../src/interfaces/Tasks.sol";
import {Merkle} from "../src/libraries/Merkle.sol";
import {Terms} from "../src/libraries/Terms.sol";
import {LocalCore} from "./core/LocalCore.sol";
import {TestToken} from "./core/TestToken.sol";

/// @title A local deployment with one client and two operators, and short forms of the messages
abstract contract Fixture is Test {
    bytes32 internal constant ROOT = keccak256("outputs root");
    bytes32 internal constant SALT = keccak256("salt");
    uint96 internal constant CAP = 100 ether;

    /// @dev Header of a program with one call, and the root over its records.
    bytes32 internal constant HEADER = bytes32(uint256(1) << 120);
    bytes32 internal constant RECORDS = keccak256("records");

    LocalCore.Core internal core;
    Bounty internal bounty;
    ServiceManager internal manager;
    DisputeGame internal game;
    TaskMarket internal market;
    DisputeGame internal channelsGame;
    Channels internal channels;
    TestToken internal token;
    Parameters internal p;

    address internal client;
    uint256 internal clientKey;
    address internal operator = makeAddr("operator");
    address internal signer = makeAddr("signer");
    address internal rival = makeAddr("rival");
    address internal rivalSigner = makeAddr("rival signer");
    address internal anybody = makeAddr("anybody");

    function setUp() public virtual {
        (client, clientKey) = makeAddrAndKey("client");
        Deploy deploy = new Deploy();
        token = _newToken();
        core = LocalCore.deploy(address(this), token);
        p = deploy.parametersOf(deploy.networkOf("local"));
        Core memory on = Core(
            address(core.allocationManager),
            address(core.delegationManager),
            address(core.strategyManager),
            address(core.strategyFactory),
            core.strategy
        );
        Deploy.Contracts memory c = deploy.deploy(on, p, 1 ether, "", address(deploy));
        (bounty, manager, game, market) = (c.bounty, c.serviceManager, c.game, c.market);
        (channelsGame, channels) = (c.channelsGame, c.channels);
        vm.roll(2_000);
        _join(operator, signer, 10 ether);
        _join(rival, rivalSigner, 10 ether);
        _prepay(client, 10 ether);
    }

    function _newToken() internal virtual returns (TestToken) {
        return new TestToken();
    }

    function _join(address who, address hot, uint256 balance) internal {
        uint32[] memory ids = new uint32[](1);
        token.mint(who, 1 ether);
        vm.startPrank(who);
        token.approve(address(core.strategyManager), 1 ether);
        core.strategyManager.depositIntoStrategy(core.strategy, token, 1 ether);
        core.delegationManager.registerAsOperator(address(0), 0, "");
        core.allocationManager.registerForOperatorSets(who, RegisterParams(address(manager), ids, ""));
        _allocate(who, address(manager), 1e18);
        manager.setSigner(hot, CAP, CAP);
        vm.stopPrank();
        _prepay(who, balance);
    }

    /// @dev Allocates a part of 1e18 of what `who`, the sender, has as stake to the AVS's set 0.
    function _allocate(address who, address avs, uint64 magnitude) internal {
        AllocateParams[] memory params = new AllocateParams[](1);
        params[0] = AllocateParams(OperatorSet(avs, 0), new address[](1), new uint64[](1));
        (params[0].strategies[0], params[0].newMagnitudes[0]) = (address(core.strategy), magnitude);
        core.allocationManager.modifyAllocations(who, params);
    }

    function _prepay(address account, uint256 amount) internal {
        token.mint(address(this), amount);
        token.approve(address(market), amount);
        market.deposit(account, amount);
    }

    function _order() internal view returns (Order memory order) {
        order.client = client;
        order.nonce = 1;
        order.semantics = 1;
        order.program = Merkle.programRootOf(HEADER, RECORDS);
        order.inputs = keccak256("inputs");
        order.weights = keccak256("weights");
        order.repeat = 1;
        order.minPrice = 0.01 ether;
        order.maxPrice = 0.03 ether;
        order.rampStart = uint64(block.number);
        order.rampLength = 20;
        order.checkFee = Terms.checkFeeBound(p, order.maxPrice);
        order.checkRate = 0.2e18;
        order.verifiers = 1;
        order.exec = 10;
        order.acceptBy = uint64(block.number) + 100;
    }

    function _sign(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _nobodyElse() internal pure returns (Admission memory) {}

    function _price(Order memory order, uint256 blockNumber) internal pure returns (uint256) {
        return Terms.price(order.minPrice, order.maxPrice, order.rampStart, order.rampLength, blockNumber);
    }

    function _escrow(Order memory order) internal pure returns (uint256) {
        return Terms.escrow(order.maxPrice, order.verifiers, order.checkFee);
    }

    function _post(Order memory order) internal returns (bytes32 task) {
        task = market.taskOf(order);
        vm.prank(order.client);
        market.post(order, "");
    }

    function _accept(Order memory order) internal returns (uint256 price, uint256 collateral) {
        vm.prank(signer);
        market.accept(operator, order, _nobodyElse());
        price = _price(order, block.number);
        collateral = Terms.collateral(p, price, order.verifiers, order.checkFee);
    }

    function _commitment(bytes32 task, bytes32 salt) internal view returns (bytes32) {
        return _commitmentOf(task, operator, 0, ROOT, salt);
    }

    function _commitmentOf(bytes32 task, address who, uint256 slot, bytes32 root, bytes32 salt)
        internal
        view
        returns (bytes32)
    {
        return keccak256(abi.encode(block.chainid, address(market), task, who, slot, root, salt));
    }

    function _commit(bytes32 task) internal {
        _commit(task, ROOT);
    }

    function _commit(bytes32 task, bytes32 root) internal {
        vm.prank(signer);
        market.commit(operator, task, _commitmentOf(task, operator, 0, root, SALT));
    }

    function _reveal(Order memory order) internal {
        _reveal(order, 0, ROOT);
    }

    function _reveal(Order memory order, uint256 slot, bytes32 root) internal {
        Opening memory opening = Opening(market.taskOf(order), slot, root, SALT);
        vm.prank(anybody);
        market.reveal(order, opening);
    }

    function _pass(bytes32 task) internal {
        vm.roll(market.deadlineOf(task) + 1);
    }

    function _balance(address account) internal view returns (uint256) {
        return market.accountOf(account).balance;
    }

    /// @dev For tasks, answers and challenges.
    function _held(address account) internal view returns (uint256) {
        return _tied(account) - _depositsOf(account);
    }

    /// @dev With the deposits of its seats.
    function _tied(address account) internal view returns (uint256) {
        return market.accountOf(account).collateral;
    }

    function _depositsOf(address account) internal view returns (uint256) {
        return manager.seatsOf(account) * Terms.seatDeposit(p);
    }

    function _assertState(bytes32 task, State expected) internal view {
        assertEq(uint8(market.taskAt(task).state), uint8(expected), "state");
    }
}
