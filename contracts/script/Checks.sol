// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IAllocationManager, IDelegationManager, IStrategy, OperatorSet} from "../src/interfaces/IEigenLayer.sol";
import {Parameters} from "../src/interfaces/ITaskMarket.sol";
import {Headers} from "../src/libraries/Headers.sol";
import {Terms} from "../src/libraries/Terms.sol";
import {IAllocationManagerViews, IDelegationManagerViews, IStrategyManagerViews} from "./Core.sol";
import {Windows} from "./Windows.sol";

/// @dev The parts of EigenLayer's core that a deployment stands on.
struct Core {
    address allocationManager;
    address delegationManager;
    address strategyManager;
    address strategyFactory;
    IStrategy strategy;
}

/// @dev Blocks, read live.
struct Delays {
    uint256 deallocation;
    uint256 withdrawal;
    uint256 slashResolution;
}

/// @title What must be so before and after a deployment; each check reverts and says what is not
library Checks {
    /// @notice `what` is `found`, and should be `expected`.
    error Mismatch(string what, address found, address expected);
    error NoCode(string what, address at);
    /// @notice Deposits into this strategy are refused.
    error NotWhitelisted(address strategy);
    /// @notice A task may live longer than stake can be slashed.
    error WindowsOutliveStake(uint256 lifetime, uint256 delay, string advice);
    /// @notice No operator can execute anything in so few blocks: every task would expire.
    error ExecTooShort(uint256 maxExec, uint256 least);

    /// @notice The core's parts are there, belong together, and are slow enough for these windows.
    function core(Core memory c, IERC20 token, Parameters memory p) internal view returns (Delays memory d) {
        code("allocation manager", c.allocationManager);
        code("delegation manager", c.delegationManager);
        code("strategy manager", c.strategyManager);
        code("strategy factory", c.strategyFactory);
        code("strategy", address(c.strategy));
        // Seeds older than 256 blocks are proven by EIP-2935.
        code("history of block hashes", Headers.HISTORY);
        address delegation = IAllocationManagerViews(c.allocationManager).delegation();
        same("delegation of the allocation manager", delegation, c.delegationManager);
        IDelegationManagerViews views = IDelegationManagerViews(c.delegationManager);
        same("allocation manager of the delegation manager", views.allocationManager(), c.allocationManager);
        same("strategy manager of the delegation manager", views.strategyManager(), c.strategyManager);
        same("token of the strategy", address(c.strategy.underlyingToken()), address(token));
        if (!IStrategyManagerViews(c.strategyManager).strategyIsWhitelistedForDeposit(c.strategy)) {
            revert NotWhitelisted(address(c.strategy));
        }
        if (p.maxExec < Windows.LEAST_EXEC) revert ExecTooShort(p.maxExec, Windows.LEAST_EXEC);
        d = delays(c);
        uint256 delay = Math.min(d.deallocation, d.withdrawal);
        uint256 lifetime = Terms.lifetime(p, p.maxExec);
        if (lifetime > delay) revert WindowsOutliveStake(lifetime, delay, Windows.advice(p, delay));
    }

    /// @notice The core knows the AVS as it must be: its own registrar and slasher, one strategy, slashes to the bounty.
    function operatorSet(Core memory c, address serviceManager, address bounty) internal view {
        IAllocationManagerViews manager = IAllocationManagerViews(c.allocationManager);
        OperatorSet memory set = OperatorSet(serviceManager, 0);
        same("registrar", manager.getAVSRegistrar(serviceManager), serviceManager);
        same("slasher", manager.getSlasher(set), serviceManager);
        (address pending,) = manager.getPendingSlasher(set);
        same("pending slasher", pending, address(0));
        same("recipient of slashed stake", manager.getRedistributionRecipient(set), bounty);
        address[] memory strategies = manager.getStrategiesInOperatorSet(set);
        same("only strategy", strategies.length == 1 ? strategies[0] : address(0), address(c.strategy));
    }

    /// @notice The core's delays now. One that pays slashes out at once has no third.
    function delays(Core memory c) internal view returns (Delays memory d) {
        d.deallocation = IAllocationManager(c.allocationManager).DEALLOCATION_DELAY();
        d.withdrawal = IDelegationManager(c.delegationManager).minWithdrawalDelayBlocks();
        try IStrategyManagerViews(c.strategyManager).SLASH_RESOLUTION_DELAY_BLOCKS() returns (uint32 blocks) {
            d.slashResolution = blocks;
        } catch {}
    }

    function code(string memory what, address at) internal view {
        if (at.code.length == 0) revert NoCode(what, at);
    }

    function same(string memory what, address found, address expected) internal pure {
        if (found != expected) revert Mismatch(what, found, expected);
    }
}
