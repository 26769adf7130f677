// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Vm} from "forge-std/Vm.sol";
import {IStrategy} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {DelegationManager} from "./DelegationManager.sol";
import {Strategy} from "./Strategy.sol";
import {StrategyManager} from "./StrategyManager.sol";

/// @title The stand-in core of a local chain, deployed as a whole
library LocalCore {
    Vm private constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint32 internal constant DELAY = 1_000;

    struct Core {
        AllocationManager allocationManager;
        DelegationManager delegationManager;
        StrategyManager strategyManager;
        Strategy strategy;
    }

    /// @notice The core with one whitelisted strategy for `token`.
    /// @param deployer whose transactions these are; its next three contracts name each other
    function deploy(address deployer, IERC20 token) internal returns (Core memory core) {
        uint256 nonce = VM.getNonce(deployer);
        address delegation = VM.computeCreateAddress(deployer, nonce + 1);
        address strategies = VM.computeCreateAddress(deployer, nonce + 2);
        core.allocationManager = new AllocationManager(DelegationManager(delegation), DELAY);
        core.delegationManager = new DelegationManager(core.allocationManager, StrategyManager(strategies), DELAY);
        core.strategyManager = new StrategyManager(core.delegationManager, deployer);
        core.strategy = new Strategy(strategies, token);
        IStrategy[] memory whitelist = new IStrategy[](1);
        whitelist[0] = core.strategy;
        core.strategyManager.addStrategiesToDepositWhitelist(whitelist);
    }
}
