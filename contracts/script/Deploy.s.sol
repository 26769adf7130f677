// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {Script} from "forge-std/Script.sol";
import {Bounty} from "../src/Bounty.sol";
import {DisputeGame} from "../src/DisputeGame.sol";
import {Referee} from "../src/Referee.sol";
import {ServiceManager} from "../src/ServiceManager.sol";
import {TaskMarket} from "../src/TaskMarket.sol";
import {IDisputeMarket} from "../src/interfaces/IDisputeGame.sol";
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

    struct Contracts {
        Bounty bounty;
        ServiceManager serviceManager;
        Referee referee;
        DisputeGame game;
        TaskMarket market;
    }

    function run() external {
        if (block.chainid != LOCAL) revert NoConfiguration(block.chainid);
        vm.startBroadcast();
        Core memory core = localCore(msg.sender);
        Contracts memory contracts = deploy(core, localParameters(), msg.sender);
        vm.stopBroadcast();
        if (!vm.envExists("DEPLOYMENT")) vm.createDir("deployments", true);
        write(vm.envOr("DEPLOYMENT", string("deployments/local.json")), core, contracts);
    }

    /// @notice The project's own contracts on any core. They name each other.
    /// @param deployer whose next contracts these are
    function deploy(Core memory core, Parameters memory p, address deployer) public returns (Contracts memory c) {
        uint256 nonce = vm.getNonce(deployer);
        address manager = vm.computeCreateAddress(deployer, nonce + 1);
        address market = vm.computeCreateAddress(deployer, nonce + 4);
        c.bounty = new Bounty(manager, market, core.strategyManager, core.strategy);
        c.serviceManager = new ServiceManager(
            core.allocationManager, core.delegationManager, core.strategy, market, c.bounty, SEAT, ""
        );
        c.referee = new Referee();
        c.game = new DisputeGame(IDisputeMarket(market), c.referee);
        c.market = new TaskMarket(c.serviceManager, c.game, p);
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
            gMiss: 0.001e18,
            checkFloor: 0.05e18,
            phi: 1e18,
            sybils: 333_333_333_333_333_333,
            stakeMargin: 1.25e18,
            minStake: 0.01e18,
            gChk: 0.001e18,
            gChunk: 0.0001e18,
            otherSeats: 2,
            confirmations: 2
        });
    }

    function write(string memory path, Core memory core, Contracts memory c) internal {
        IERC20Metadata token = IERC20Metadata(address(c.market.token()));
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
        vm.serializeAddress("deployment", "bounty", address(c.bounty));
        vm.serializeAddress("deployment", "serviceManager", address(c.serviceManager));
        vm.serializeAddress("deployment", "referee", address(c.referee));
        vm.serializeAddress("deployment", "disputeGame", address(c.game));
        vm.serializeAddress("deployment", "taskMarket", address(c.market));
        vm.serializeAddress("deployment", "burn", c.market.BURN());
        string memory json = vm.serializeString("deployment", "parameters", serialize(c.market.parameters()));
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
        vm.serializeUint("parameters", "gMiss", p.gMiss);
        vm.serializeUint("parameters", "checkFloor", p.checkFloor);
        vm.serializeUint("parameters", "phi", p.phi);
        vm.serializeUint("parameters", "sybils", p.sybils);
        vm.serializeUint("parameters", "stakeMargin", p.stakeMargin);
        vm.serializeUint("parameters", "minStake", p.minStake);
        vm.serializeUint("parameters", "gChk", p.gChk);
        vm.serializeUint("parameters", "gChunk", p.gChunk);
        vm.serializeUint("parameters", "otherSeats", p.otherSeats);
        return vm.serializeUint("parameters", "confirmations", p.confirmations);
    }
}
