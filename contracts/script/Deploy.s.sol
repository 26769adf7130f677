// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {Script} from "forge-std/Script.sol";
import {VmSafe} from "forge-std/Vm.sol";
import {console} from "forge-std/console.sol";
import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {Bounty} from "../src/Bounty.sol";
import {Channels} from "../src/Channels.sol";
import {DisputeGame} from "../src/DisputeGame.sol";
import {Referee} from "../src/Referee.sol";
import {ServiceManager} from "../src/ServiceManager.sol";
import {TaskMarket} from "../src/TaskMarket.sol";
import {IDisputeMarket} from "../src/interfaces/IDisputeGame.sol";
import {IAllocationManager, IDelegationManager, IStrategy, IStrategyManager} from "../src/interfaces/IEigenLayer.sol";
import {Parameters} from "../src/interfaces/ITaskMarket.sol";
import {LocalCore} from "../test/core/LocalCore.sol";
import {TestToken} from "../test/core/TestToken.sol";
import {Delays as CoreDelays} from "../test/core/Types.sol";
import {Checks, Core, Delays} from "./Checks.sol";
import {IStrategyFactory} from "./Core.sol";
import {Windows} from "./Windows.sol";

/// @title Deploys the AVS and its market on the core that a network file names, and writes one JSON
/// @notice NETWORK is a name in networks/ or a path, by default the one of this chain's id; DEPLOYMENT is where the JSON
/// goes, by default deployments/NAME.json; GAS_PRICE (wei) turns amounts of gas into wei where the file has some;
/// METADATA_URI is what EigenLayer shows about the AVS, by default the file's.
/// A network without core, which must be a local chain, gets the stand-in and a token that anybody mints.
/// Without --broadcast nothing is sent or written: everything is deployed and checked on a copy of the chain.
contract Deploy is Script {
    using Strings for uint256;

    error NoNetwork(uint256 chainId);
    error WrongChain(uint256 chainId, uint256 expected);
    error NoGasPrice();
    /// @notice What EigenLayer shows about the AVS stands for ever: METADATA_URI, or `metadataURI` of the network file, is
    /// to name it on every chain that is not local.
    error NoMetadataURI();

    uint256 private constant LOCAL = 31_337;

    struct Contracts {
        Bounty bounty;
        ServiceManager serviceManager;
        Referee referee;
        DisputeGame game;
        TaskMarket market;
        DisputeGame channelsGame;
        Channels channels;
    }

    function run() external returns (Core memory core, Contracts memory c) {
        string memory name = chosen();
        string memory network = networkOf(name);
        uint256 chainId = vm.parseJsonUint(network, ".chainId");
        if (block.chainid != chainId) revert WrongChain(block.chainid, chainId);
        Parameters memory p = parametersOf(network);

        vm.startBroadcast(msg.sender);
        IERC20 token;
        (core, token) = coreOf(network, msg.sender);
        Delays memory delays = Checks.core(core, token, p);
        uint256 seat = vm.parseJsonUint(network, ".seat");
        c = deploy(core, p, seat, metadataOf(network, vm.envOr("METADATA_URI", string(""))), msg.sender);
        vm.stopBroadcast();

        check(core, c);
        console.log(outageOf(p, vm.parseJsonUint(network, ".blockSeconds")));
        string memory json = serialize(name, core, delays, c);
        if (vm.isContext(VmSafe.ForgeContext.ScriptBroadcast)) {
            vm.createDir("deployments", true);
            vm.writeJson(json, vm.envOr("DEPLOYMENT", string.concat("deployments/", name, ".json")));
        } else {
            console.log("dry run, nothing is sent; it would be deployed as");
            console.log(json);
        }
    }

    /// @notice Checks what was deployed, on the chain as it is: `--sig 'verify(string)' deployments/NAME.json`.
    function verify(string calldata path) external view {
        string memory json = vm.readFile(path);
        uint256 chainId = vm.parseJsonUint(json, ".chainId");
        if (block.chainid != chainId) revert WrongChain(block.chainid, chainId);
        Contracts memory c;
        c.bounty = Bounty(vm.parseJsonAddress(json, ".bounty"));
        c.serviceManager = ServiceManager(vm.parseJsonAddress(json, ".serviceManager"));
        c.referee = Referee(vm.parseJsonAddress(json, ".referee"));
        c.game = DisputeGame(vm.parseJsonAddress(json, ".disputeGame"));
        c.market = TaskMarket(vm.parseJsonAddress(json, ".taskMarket"));
        c.channelsGame = DisputeGame(vm.parseJsonAddress(json, ".channelsGame"));
        c.channels = Channels(vm.parseJsonAddress(json, ".channels"));
        Core memory core = coreIn(json);
        core.strategy = IStrategy(vm.parseJsonAddress(json, ".core.strategy"));
        check(core, c);
        console.log("everything is as it should be");
    }

    /// @notice Reverts unless all contracts are there, belong to each other and to the core, and the core to them.
    function check(Core memory core, Contracts memory c) public view {
        Checks.code("bounty", address(c.bounty));
        Checks.code("service manager", address(c.serviceManager));
        Checks.code("referee", address(c.referee));
        Checks.code("dispute game", address(c.game));
        Checks.code("task market", address(c.market));
        Checks.code("dispute game of the channels", address(c.channelsGame));
        Checks.code("channels", address(c.channels));
        Checks.same("game of the market", address(c.market.game()), address(c.game));
        Checks.same("market of the game", address(c.game.market()), address(c.market));
        Checks.same("referee of the game", address(c.game.referee()), address(c.referee));
        Checks.same("service manager of the market", address(c.market.serviceManager()), address(c.serviceManager));
        Checks.same("market of the service manager", c.serviceManager.market(), address(c.market));
        Checks.same("channels of the service manager", c.serviceManager.channels(), address(c.channels));
        Checks.same("market of the channels", address(c.channels.market()), address(c.market));
        Checks.same("game of the channels", address(c.channels.game()), address(c.channelsGame));
        Checks.same("channels of their game", address(c.channelsGame.market()), address(c.channels));
        Checks.same("referee of the channels' game", address(c.channelsGame.referee()), address(c.referee));
        Checks.same("bounty of the service manager", address(c.serviceManager.bounty()), address(c.bounty));
        Checks.same("strategy manager of the bounty", address(c.bounty.strategyManager()), core.strategyManager);
        address allocation = address(c.serviceManager.allocationManager());
        Checks.same("allocation manager of the service manager", allocation, core.allocationManager);
        address delegation = address(c.serviceManager.delegationManager());
        Checks.same("delegation manager of the service manager", delegation, core.delegationManager);
        Checks.same("strategy of the service manager", address(c.serviceManager.strategy()), address(core.strategy));
        Checks.core(core, c.market.token(), c.market.parameters());
        Checks.operatorSet(core, address(c.serviceManager), address(c.bounty));
    }

    /// @notice The project's own contracts on any core. They name each other.
    /// @param seat wei of stake for each seat
    /// @param deployer whose next contracts these are
    function deploy(Core memory core, Parameters memory p, uint256 seat, string memory metadataURI, address deployer)
        public
        returns (Contracts memory c)
    {
        uint256 nonce = vm.getNonce(deployer);
        address manager = vm.computeCreateAddress(deployer, nonce + 1);
        address market = vm.computeCreateAddress(deployer, nonce + 4);
        address channels = vm.computeCreateAddress(deployer, nonce + 6);
        c.bounty = new Bounty(manager, market, IStrategyManager(core.strategyManager), core.strategy);
        c.serviceManager = new ServiceManager(
            IAllocationManager(core.allocationManager),
            IDelegationManager(core.delegationManager),
            core.strategy,
            market,
            channels,
            c.bounty,
            seat,
            metadataURI
        );
        c.referee = new Referee();
        c.game = new DisputeGame(IDisputeMarket(market), c.referee);
        c.market = new TaskMarket(c.serviceManager, c.game, p);
        c.channelsGame = new DisputeGame(IDisputeMarket(channels), c.referee);
        c.channels = new Channels(c.market, c.channelsGame);
    }

    /// @notice The content of a network file: of a name in networks/, or of a path that ends with .json.
    function networkOf(string memory name) public view returns (string memory) {
        bool isPath = vm.indexOf(name, ".json") != type(uint256).max;
        return vm.readFile(isPath ? name : string.concat("networks/", name, ".json"));
    }

    /// @notice The parameters of a network. Amounts under `gas` are in gas.
    function parametersOf(string memory network) public view returns (Parameters memory) {
        string[21] memory names = Windows.names();
        uint256[21] memory values;
        for (uint256 i; i < names.length; ++i) {
            string memory inGas = string.concat(".gas.", names[i]);
            if (vm.keyExistsJson(network, inGas)) {
                uint256 price = vm.envOr("GAS_PRICE", uint256(0));
                if (price == 0) revert NoGasPrice();
                values[i] = vm.parseJsonUint(network, inGas) * price;
            } else {
                values[i] = vm.parseJsonUint(network, string.concat(".parameters.", names[i]));
            }
        }
        return abi.decode(abi.encode(values), (Parameters));
    }

    /// @notice What is `given`, or what the network file names. Reverts where neither is, but for a local chain.
    function metadataOf(string memory network, string memory given) public view returns (string memory uri) {
        uri = bytes(given).length == 0 ? vm.parseJsonString(network, ".metadataURI") : given;
        if (bytes(uri).length == 0 && block.chainid != LOCAL) revert NoMetadataURI();
    }

    /// @notice How long an operator of a market with these windows may be away, in words.
    function outageOf(Parameters memory p, uint256 blockSeconds) public pure returns (string memory) {
        uint256 blocks = Windows.outage(p);
        string memory time = string.concat(blocks.toString(), " blocks, about ", (blocks * blockSeconds).toString());
        return string.concat("an operator that is away for ", time, " s, may be convicted");
    }

    /// @dev What a stand-in of the core has: the delays that the network file names.
    function delaysOf(string memory network) private pure returns (CoreDelays memory) {
        string[4] memory names = ["deallocation", "configuration", "withdrawal", "slashResolution"];
        uint256[4] memory values;
        for (uint256 i; i < names.length; ++i) {
            values[i] = vm.parseJsonUint(network, string.concat(".delays.", names[i]));
        }
        return abi.decode(abi.encode(values), (CoreDelays));
    }

    /// @dev The strategy is the network file's, or the factory's only one for the token.
    function coreOf(string memory network, address deployer) private returns (Core memory core, IERC20 token) {
        if (!vm.keyExistsJson(network, ".core")) {
            if (block.chainid != LOCAL) revert WrongChain(block.chainid, LOCAL);
            LocalCore.Core memory l = LocalCore.deploy(deployer, new TestToken(), delaysOf(network));
            core.allocationManager = address(l.allocationManager);
            core.delegationManager = address(l.delegationManager);
            core.strategyManager = address(l.strategyManager);
            (core.strategyFactory, core.strategy) = (address(l.strategyFactory), l.strategy);
            return (core, core.strategy.underlyingToken());
        }
        core = coreIn(network);
        token = IERC20(vm.parseJsonAddress(network, ".token"));
        if (vm.keyExistsJson(network, ".strategy")) {
            core.strategy = IStrategy(vm.parseJsonAddress(network, ".strategy"));
        } else {
            Checks.code("strategy factory", core.strategyFactory);
            core.strategy = IStrategyFactory(core.strategyFactory).deployedStrategies(token);
            if (address(core.strategy) == address(0)) {
                core.strategy = IStrategyFactory(core.strategyFactory).deployNewStrategy(token);
            }
        }
    }

    function coreIn(string memory json) private pure returns (Core memory core) {
        core.allocationManager = vm.parseJsonAddress(json, ".core.allocationManager");
        core.delegationManager = vm.parseJsonAddress(json, ".core.delegationManager");
        core.strategyManager = vm.parseJsonAddress(json, ".core.strategyManager");
        core.strategyFactory = vm.parseJsonAddress(json, ".core.strategyFactory");
    }

    function chosen() private view returns (string memory name) {
        name = vm.envOr("NETWORK", string(""));
        if (bytes(name).length != 0) return name;
        string[4] memory known = ["local", "sepolia", "hoodi", "mainnet"];
        for (uint256 i; i < known.length; ++i) {
            if (vm.parseJsonUint(networkOf(known[i]), ".chainId") == block.chainid) return known[i];
        }
        revert NoNetwork(block.chainid);
    }

    function serialize(string memory name, Core memory core, Delays memory delays, Contracts memory c)
        private
        returns (string memory)
    {
        IERC20Metadata token = IERC20Metadata(address(c.market.token()));
        vm.serializeAddress("core", "allocationManager", core.allocationManager);
        vm.serializeAddress("core", "delegationManager", core.delegationManager);
        vm.serializeAddress("core", "strategyManager", core.strategyManager);
        vm.serializeAddress("core", "strategyFactory", core.strategyFactory);
        string memory coreJson = vm.serializeAddress("core", "strategy", address(core.strategy));
        vm.serializeUint("delays", "deallocation", delays.deallocation);
        vm.serializeUint("delays", "withdrawal", delays.withdrawal);
        string memory delaysJson = vm.serializeUint("delays", "slashResolution", delays.slashResolution);
        vm.serializeAddress("token", "address", address(token));
        vm.serializeString("token", "symbol", token.symbol());
        string memory tokenJson = vm.serializeUint("token", "decimals", token.decimals());

        vm.serializeString("deployment", "network", name);
        vm.serializeUint("deployment", "chainId", block.chainid);
        vm.serializeUint("deployment", "block", block.number);
        vm.serializeString("deployment", "core", coreJson);
        vm.serializeString("deployment", "delays", delaysJson);
        vm.serializeString("deployment", "token", tokenJson);
        vm.serializeAddress("deployment", "bounty", address(c.bounty));
        vm.serializeAddress("deployment", "serviceManager", address(c.serviceManager));
        vm.serializeAddress("deployment", "referee", address(c.referee));
        vm.serializeAddress("deployment", "disputeGame", address(c.game));
        vm.serializeAddress("deployment", "taskMarket", address(c.market));
        vm.serializeAddress("deployment", "channels", address(c.channels));
        vm.serializeAddress("deployment", "channelsGame", address(c.channelsGame));
        vm.serializeAddress("deployment", "burn", c.market.BURN());
        return vm.serializeString("deployment", "parameters", serialize(c.market.parameters()));
    }

    function serialize(Parameters memory p) private returns (string memory json) {
        string[21] memory names = Windows.names();
        uint256[21] memory values = abi.decode(abi.encode(p), (uint256[21]));
        for (uint256 i; i < names.length; ++i) {
            json = vm.serializeUint("parameters", names[i], values[i]);
        }
    }
}
