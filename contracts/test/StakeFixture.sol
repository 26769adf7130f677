// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {
    CreateSetParamsV2,
    DeregisterParams,
    IAVSRegistrar,
    OperatorSet,
    RegisterParams,
    SlashingParams
} from "../src/interfaces/IEigenLayer.sol";
import {Fixture} from "./Fixture.sol";
import {AllocationManager} from "./core/AllocationManager.sol";
import {QueuedWithdrawalParams, SignatureWithExpiry, Withdrawal} from "./core/Types.sol";

/// @title Another AVS with the same strategy, that slashes whom it likes
contract OtherAvs is IAVSRegistrar {
    AllocationManager private immutable _core;
    address private immutable _strategy;

    constructor(AllocationManager core, address strategy) {
        (_core, _strategy) = (core, strategy);
        CreateSetParamsV2[] memory sets = new CreateSetParamsV2[](1);
        sets[0] = CreateSetParamsV2(0, new address[](1), address(this));
        sets[0].strategies[0] = strategy;
        core.updateAVSMetadataURI(address(this), "");
        core.createOperatorSets(address(this), sets);
    }

    function slash(address operator, uint256 wad) external {
        SlashingParams memory params = SlashingParams(operator, 0, new address[](1), new uint256[](1), "");
        (params.strategies[0], params.wadsToSlash[0]) = (_strategy, wad);
        _core.slashOperator(address(this), params);
    }

    function registerOperator(address, address, uint32[] calldata, bytes calldata) external pure {}

    function deregisterOperator(address, address, uint32[] calldata) external pure {}

    function supportsAVS(address) external pure returns (bool) {
        return true;
    }
}

/// @title Short forms of what owners of stake do at the core, and of what the market asks of the service manager
abstract contract StakeFixture is Fixture {
    bytes32 internal constant TASK = keccak256("task");
    /// @dev Whole lifetime of what the core lets nobody take away.
    uint256 internal constant DELAY = 1_000;

    OtherAvs internal other;
    address[] internal nobody;

    function setUp() public virtual override {
        super.setUp();
        other = new OtherAvs(core.allocationManager, address(core.strategy));
    }

    function _set() internal view returns (OperatorSet memory) {
        return OperatorSet(address(manager), 0);
    }

    function _shares(address who) internal view returns (uint256) {
        return core.delegationManager.operatorShares(who, core.strategy);
    }

    function _magnitude(address who) internal view returns (uint64) {
        return core.allocationManager.getAllocation(who, _set(), address(core.strategy)).currentMagnitude;
    }

    /// @dev What the service manager could slash now, by the core's own books.
    function _slashable(address who) internal view returns (uint256) {
        uint256 most = core.allocationManager.getMaxMagnitude(who, address(core.strategy));
        if (most == 0 || !core.allocationManager.isOperatorSlashable(who, _set())) return 0;
        uint256 queued = core.delegationManager.getSlashableSharesInQueue(who, core.strategy);
        return (_shares(who) + queued) * _magnitude(who) / most;
    }

    /// @dev Shares that a unit of the operator's magnitude is worth, rounded up.
    function _unit(address who) internal view returns (uint256) {
        uint256 queued = core.delegationManager.getSlashableSharesInQueue(who, core.strategy);
        return (_shares(who) + queued) / core.allocationManager.getMaxMagnitude(who, address(core.strategy)) + 1;
    }

    function _stake(address staker, uint256 amount) internal {
        token.mint(staker, amount);
        vm.startPrank(staker);
        token.approve(address(core.strategyManager), amount);
        core.strategyManager.depositIntoStrategy(core.strategy, token, amount);
        vm.stopPrank();
    }

    function _delegate(address staker, address who) internal {
        SignatureWithExpiry memory none;
        vm.prank(staker);
        core.delegationManager.delegateTo(who, none, 0);
    }

    function _queue(address staker, uint256 depositShares) internal returns (Withdrawal memory) {
        QueuedWithdrawalParams[] memory params = new QueuedWithdrawalParams[](1);
        params[0] = QueuedWithdrawalParams(new address[](1), new uint256[](1), address(0));
        (params[0].strategies[0], params[0].depositShares[0]) = (address(core.strategy), depositShares);
        vm.prank(staker);
        return core.delegationManager.queuedWithdrawals(core.delegationManager.queueWithdrawals(params)[0]);
    }

    function _tokens() internal view returns (IERC20[] memory tokens) {
        tokens = new IERC20[](1);
        tokens[0] = token;
    }

    function _register(address who) internal {
        vm.prank(who);
        core.allocationManager.registerForOperatorSets(who, RegisterParams(address(manager), new uint32[](1), ""));
    }

    function _deregister(address who) internal {
        vm.prank(who);
        core.allocationManager.deregisterFromOperatorSets(DeregisterParams(who, address(manager), new uint32[](1)));
    }

    function _reallocate(address who, address avs, uint64 magnitude) internal {
        vm.startPrank(who);
        _allocate(who, avs, magnitude);
        vm.stopPrank();
    }

    /// @dev Lets another AVS, of which the operator becomes a member, slash `wad` of `magnitude`, at once.
    function _slashElsewhere(address who, uint64 magnitude, uint256 wad) internal {
        if (!core.allocationManager.isMemberOfOperatorSet(who, OperatorSet(address(other), 0))) {
            vm.prank(who);
            core.allocationManager.registerForOperatorSets(who, RegisterParams(address(other), new uint32[](1), ""));
        }
        _reallocate(who, address(other), magnitude);
        other.slash(who, wad);
    }

    function _lock(bytes32 task, address who, uint256 amount, uint256 end) internal returns (uint256) {
        vm.prank(address(market));
        return manager.lock(task, who, amount, end);
    }

    function _unlock(bytes32 task, address who) internal {
        vm.prank(address(market));
        manager.unlock(task, who);
    }

    function _slash(bytes32 task, address who) internal returns (uint256 slashId, uint256 shares) {
        vm.prank(address(market));
        return manager.slash(task, who, nobody);
    }
}
