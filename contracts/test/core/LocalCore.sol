// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Vm} from "forge-std/Vm.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {DelegationManager} from "./DelegationManager.sol";
import {PermissionController} from "./PermissionController.sol";
import {Strategy} from "./Strategy.sol";
import {StrategyFactory} from "./StrategyFactory.sol";
import {StrategyManager} from "./StrategyManager.sol";
import {Delays} from "./Types.sol";

/// @title The stand-in core of a local chain, deployed as a whole
/// @dev As in the core, a slash panics on a chain that is younger than the withdrawal delay.
library LocalCore {
    Vm private constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint32 internal constant DELAY = 1_000;

    struct Core {
        PermissionController permissionController;
        AllocationManager allocationManager;
        DelegationManager delegationManager;
        StrategyManager strategyManager;
        StrategyFactory strategyFactory;
        Strategy strategy;
    }

    /// @notice The core of a local chain with one strategy for `token`.
    /// @param deployer whose transactions these are, and who can pause the core
    function deploy(address deployer, IERC20 token) internal returns (Core memory) {
        return deploy(deployer, token, Delays(DELAY, 75, DELAY, 20));
    }

    /// @dev The deployer's next contracts name each other.
    function deploy(address deployer, IERC20 token, Delays memory delays) internal returns (Core memory core) {
        uint256 nonce = VM.getNonce(deployer);
        DelegationManager delegation = DelegationManager(VM.computeCreateAddress(deployer, nonce + 2));
        StrategyManager strategies = StrategyManager(VM.computeCreateAddress(deployer, nonce + 3));
        address factory = VM.computeCreateAddress(deployer, nonce + 4);
        PermissionController permissions = new PermissionController();
        core.permissionController = permissions;
        core.allocationManager = new AllocationManager(delegation, permissions, deployer, delays);
        core.delegationManager =
            new DelegationManager(core.allocationManager, strategies, permissions, deployer, delays.withdrawal);
        core.strategyManager = new StrategyManager(delegation, factory, deployer, delays.slashResolution);
        core.strategyFactory = new StrategyFactory(strategies);
        core.strategy = Strategy(address(core.strategyFactory.deployNewStrategy(token)));
    }
}
