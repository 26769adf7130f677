// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {Script} from "forge-std/Script.sol";
import {Bounty} from "../src/Bounty.sol";
import {ServiceManager} from "../src/ServiceManager.sol";
import {TaskMarket} from "../src/TaskMarket.sol";
import {IDisputeGame} from "../src/interfaces/IDisputeGame.sol";
import {IAllocationManager, IDelegationManager, IStrategy, IStrategyManager} from "../src/interfaces/IEigenLayer.sol";
import {Parameters} from "../src/interfaces/ITaskMarket.sol";
import {LocalCore} from "../test/core/LocalCore.sol";
import {TestToken} from "../test/core/TestToken.sol";

/// @title Deploys the AVS and its market, and writes the deployment as JSON to the path in DEPLOYMENT
/// @notice On a local chain (31337) the stand-in core and a token that anybody mints come with it.
contract Deploy is Script {
    error NoConfiguration(uint256 chainId);

    uint256 internal constant LOCAL = 31_337;
    /// @dev Wei of stake for each seat, on a local chain.
    uint256 internal constant SEAT = 1 ether;

    struct Core {
        IAllocationManager allocationManager;
        IDelegationManager delegationManager;
        IStrategyManager strategyManager;
        IStrategy strategy;
    }

    function run() external {
        if (block.chainid != LOCAL) revert NoConfiguration(block.chainid);
        vm.startBroadcast();
        Core memory core = localCore(msg.sender);
        (ServiceManager serviceManager, TaskMarket market) = deploy(core, localParameters(), msg.sender);
        vm.stopBroadcast();
        if (!vm.envExists("DEPLOYMENT")) vm.createDir("deployments", true);
        write(vm.envOr("DEPLOYMENT", string("deployments/local.json")), core, serviceManager, market);
    }

    /// @notice The project's own contracts on any core. They name each other.
    /// @param deployer whose next contracts these are
    function deploy(Core memory core, Parameters memory p, address deployer)
        public
        returns (ServiceManager serviceManager, TaskMarket market)
    {
        uint256 nonce = vm.getNonce(deployer);
        address manager = vm.computeCreateAddress(deployer, nonce + 1);
        address market_ = vm.computeCreateAddress(deployer, nonce + 2);
        Bounty bounty = new Bounty(manager, market_, core.strategyManager, core.strategy);
        serviceManager = new ServiceManager(
            core.allocationManager, core.delegationManager, core.strategy, market_, bounty, SEAT, ""
        );
        market = new TaskMarket(serviceManager, IDisputeGame(address(0)), p);
    }

    function localCore(address deployer) public returns (Core memory) {
        LocalCore.Core memory core = LocalCore.deploy(deployer, new TestToken());
        return Core(core.allocationManager, core.delegationManager, core.strategyManager, core.strategy);
    }

    function localParameters() public pure returns (Parameters memory) {
        return Parameters({
            maxExec: 60,
            lag: 2,
            grid: 1,
            record: 50,
            check: 10,
            reveal: 10,
            challenge: 10,
            clock: 60,
            margin: 50,
            eta: 0.25e18,
            gDef: 0.003e18,
            gMiss: 0.001e18
        });
    }

    function write(string memory path, Core memory core, ServiceManager serviceManager, TaskMarket market) internal {
        IERC20Metadata token = IERC20Metadata(address(market.token()));
        vm.serializeAddress("core", "allocationManager", address(core.allocationManager));
        vm.serializeAddress("core", "delegationManager", address(core.delegationManager));
        vm.serializeAddress("core", "strategyManager", address(core.strategyManager));
        string memory coreJson = vm.serializeAddress("core", "strategy", address(core.strategy));
        vm.serializeAddress("token", "address", address(token));
        vm.serializeString("token", "symbol", token.symbol());
        string memory tokenJson = vm.serializeUint("token", "decimals", token.decimals());

        vm.serializeUint("deployment", "chainId", block.chainid);
        vm.serializeUint("deployment", "block", block.number);
        vm.serializeString("deployment", "core", coreJson);
        vm.serializeString("deployment", "token", tokenJson);
        vm.serializeAddress("deployment", "serviceManager", address(serviceManager));
        vm.serializeAddress("deployment", "bounty", address(serviceManager.bounty()));
        vm.serializeAddress("deployment", "taskMarket", address(market));
        vm.serializeAddress("deployment", "burn", market.BURN());
        string memory json = vm.serializeString("deployment", "parameters", serialize(market.parameters()));
        vm.writeJson(json, path);
    }

    function serialize(Parameters memory p) internal returns (string memory) {
        vm.serializeUint("parameters", "maxExec", p.maxExec);
        vm.serializeUint("parameters", "lag", p.lag);
        vm.serializeUint("parameters", "grid", p.grid);
        vm.serializeUint("parameters", "record", p.record);
        vm.serializeUint("parameters", "check", p.check);
        vm.serializeUint("parameters", "reveal", p.reveal);
        vm.serializeUint("parameters", "challenge", p.challenge);
        vm.serializeUint("parameters", "clock", p.clock);
        vm.serializeUint("parameters", "margin", p.margin);
        vm.serializeUint("parameters", "eta", p.eta);
        vm.serializeUint("parameters", "gDef", p.gDef);
        return vm.serializeUint("parameters", "gMiss", p.gMiss);
    }
}
