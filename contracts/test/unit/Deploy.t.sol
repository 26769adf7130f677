// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Test} from "forge-std/Test.sol";
import {Checks, Core} from "../../script/Checks.sol";
import {Deploy} from "../../script/Deploy.s.sol";
import {Windows} from "../../script/Windows.sol";
import {IStrategy, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {Parameters} from "../../src/interfaces/ITaskMarket.sol";
import {Headers} from "../../src/libraries/Headers.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {AllocationManager} from "../core/AllocationManager.sol";
import {DelegationManager} from "../core/DelegationManager.sol";
import {PermissionController} from "../core/PermissionController.sol";
import {StrategyFactory} from "../core/StrategyFactory.sol";
import {StrategyManager} from "../core/StrategyManager.sol";
import {TestToken} from "../core/TestToken.sol";
import {Delays as CoreDelays} from "../core/Types.sol";

/// @title The deploy script on each network: stand-ins at the very addresses of its core
contract DeployTest is Test {
    uint32 private constant SLASH_RESOLUTION = 50_400;
    string private constant URI = "https://example.org/avs.json";

    Deploy private script;
    string private network;
    Core private at;
    IERC20 private token;

    function setUp() public {
        script = new Deploy();
        vm.etch(Headers.HISTORY, hex"00");
        vm.setEnv("GAS_PRICE", "2000000000");
        vm.setEnv("METADATA_URI", URI);
    }

    function test_Run_DeploysOnSepolia() public {
        _stand("sepolia", 50);
        (Core memory core, Deploy.Contracts memory c) = script.run();
        assertEq(address(core.strategy), vm.parseJsonAddress(network, ".strategy"), "the strategy of the file");
        assertEq(c.serviceManager.stakeDelay(), 50, "live delay");
        assertEq(c.serviceManager.SEAT(), 1 ether, "seat");
        assertEq(Terms.lifetime(c.market.parameters(), 3), 49, "lifetime");
    }

    /// @dev Its core is older, and has no delay before slashes are paid out.
    function test_Run_DeploysOnHoodi() public {
        _stand("hoodi", 50);
        vm.mockCallRevert(at.strategyManager, abi.encodeWithSignature("SLASH_RESOLUTION_DELAY_BLOCKS()"), "");
        (Core memory core,) = script.run();
        assertEq(Checks.delays(core).slashResolution, 0, "none");
    }

    function test_Run_DeploysOnMainnetWithTheFactorysStrategy() public {
        _stand("mainnet", 100_800);
        (Core memory core, Deploy.Contracts memory c) = script.run();
        assertEq(address(StrategyFactory(at.strategyFactory).deployedStrategies(token)), address(core.strategy), "new");
        Parameters memory p = c.market.parameters();
        assertEq(p.gDef, 600_000 * 2 gwei, "gas at the stated price");
        assertEq(Terms.lifetime(p, p.maxExec), 81_444, "lifetime");
        assertEq(Checks.delays(core).slashResolution, SLASH_RESOLUTION, "slash resolution");
        (Core memory again,) = script.run();
        assertEq(address(again.strategy), address(core.strategy), "the factory has one strategy for a token");
    }

    function test_RevertWhen_TheTestnetsDelayIsShort() public {
        _stand("sepolia", 25);
        string memory advice = "shorten clock from 11 to 1, and reveal from 3 to 1, and challenge from 2 to 0";
        vm.expectRevert(abi.encodeWithSelector(Checks.WindowsOutliveStake.selector, 49, 25, advice));
        script.run();
    }

    function test_RevertWhen_NoOperatorHasTimeToExecute() public {
        _stand("sepolia", 50);
        Parameters memory p = script.parametersOf(network);
        p.maxExec = 2;
        vm.expectRevert(abi.encodeWithSelector(Checks.ExecTooShort.selector, 2, 3));
        this.checkCore(p);
        p.maxExec = 3;
        this.checkCore(p);
    }

    function checkCore(Parameters memory p) external view {
        Checks.core(at, token, p);
    }

    function test_Outage_NamesTheShortestThatConvicts() public view {
        string[4] memory names = ["local", "sepolia", "hoodi", "mainnet"];
        uint256[4] memory blocks = [uint256(20), 3, 3, 1_800];
        for (uint256 i; i < names.length; ++i) {
            assertEq(Windows.outage(script.parametersOf(script.networkOf(names[i]))), blocks[i], names[i]);
        }
        Parameters memory p = script.parametersOf(script.networkOf("sepolia"));
        assertEq(
            script.outageOf(p, 12), "an operator that is away for 3 blocks, about 36 s, may be convicted", "in words"
        );
        p.clock = 1;
        assertEq(Windows.outage(p), 2, "the clock of a task of one block");
    }

    function test_Advice_NamesEachWindowThatSufficesAlone() public view {
        Parameters memory p = script.parametersOf(script.networkOf("mainnet"));
        assertEq(Windows.advice(p, 81_444), "", "it fits");
        assertEq(
            Windows.advice(p, 80_000),
            string.concat(
                "shorten maxExec from 7200 to 6911, or reveal from 1800 to 356, or challenge from 7200 to 5756, ",
                "or clock from 7200 to 6478, or margin from 21600 to 20156"
            ),
            "five do"
        );
        assertEq(Windows.advice(p, 5), "no windows are short enough: at their least a task lives 20", "none do");
    }

    /// @dev What is advised fits, and one block more does not.
    function testFuzz_Advice_Fits(uint256 delay) public view {
        Parameters memory p = script.parametersOf(script.networkOf("local"));
        delay = bound(delay, 20, 522);
        string memory advice = Windows.advice(p, delay);
        assertTrue(vm.indexOf(advice, "shorten") == 0, "always some");
        bool together = vm.indexOf(advice, ", and ") != type(uint256).max;
        if (together || vm.indexOf(advice, "shorten maxExec from 60 to ") != 0) return;
        string[] memory words = vm.split(vm.split(advice, ",")[0], " ");
        uint256 most = vm.parseUint(words[words.length - 1]);
        // SAFETY: it is below 60.
        p.maxExec = uint24(most);
        assertLe(Terms.lifetime(p, most), delay, "fits");
        p.maxExec = uint24(most + 1);
        assertGt(Terms.lifetime(p, most + 1), delay, "is the most");
    }

    function test_RevertWhen_APartOfTheCoreIsNotThere() public {
        _stand("sepolia", 50);
        vm.etch(at.strategyManager, "");
        vm.expectRevert(abi.encodeWithSelector(Checks.NoCode.selector, "strategy manager", at.strategyManager));
        script.run();
    }

    function test_RevertWhen_TheStrategyTakesNoDeposits() public {
        _stand("sepolia", 50);
        bytes memory ask = abi.encodeWithSignature("strategyIsWhitelistedForDeposit(address)", at.strategy);
        vm.mockCall(at.strategyManager, ask, abi.encode(false));
        vm.expectRevert(abi.encodeWithSelector(Checks.NotWhitelisted.selector, at.strategy));
        script.run();
    }

    function test_RevertWhen_NobodyNamesTheMetadataOfAPublicNetwork() public {
        string memory silent = '{"metadataURI": ""}';
        assertEq(script.metadataOf(silent, ""), "", "a local one needs none");
        vm.chainId(1);
        assertEq(script.metadataOf(silent, URI), URI, "given");
        assertEq(script.metadataOf('{"metadataURI": "ipfs://x"}', ""), "ipfs://x", "the file's");
        vm.expectRevert(Deploy.NoMetadataURI.selector);
        script.metadataOf(silent, "");
    }

    function test_RevertWhen_NoNetworkHasThisChain() public {
        vm.chainId(8453);
        vm.expectRevert(abi.encodeWithSelector(Deploy.NoNetwork.selector, 8453));
        script.run();
    }

    function test_Check_FindsWhatIsNotAsItShouldBe() public {
        _stand("sepolia", 50);
        (Core memory core, Deploy.Contracts memory c) = script.run();
        script.check(core, c);
        OperatorSet memory set = OperatorSet(address(c.serviceManager), 0);
        address me = address(this);
        address avs = address(c.serviceManager);
        bytes[4] memory asks = [
            abi.encodeWithSignature("getAVSRegistrar(address)", avs),
            abi.encodeWithSignature("getSlasher((address,uint32))", set),
            abi.encodeWithSignature("getRedistributionRecipient((address,uint32))", set),
            abi.encodeWithSignature("delegation()")
        ];
        string[4] memory names =
            ["registrar", "slasher", "recipient of slashed stake", "delegation of the allocation manager"];
        address[4] memory expected = [avs, avs, address(c.bounty), at.delegationManager];
        for (uint256 i; i < asks.length; ++i) {
            vm.mockCall(at.allocationManager, asks[i], abi.encode(me));
            vm.expectRevert(abi.encodeWithSelector(Checks.Mismatch.selector, names[i], me, expected[i]));
            script.check(core, c);
            vm.clearMockedCalls();
        }
        bytes memory pending = abi.encodeWithSignature("getPendingSlasher((address,uint32))", set);
        vm.mockCall(at.allocationManager, pending, abi.encode(me, 1));
        vm.expectRevert(abi.encodeWithSelector(Checks.Mismatch.selector, "pending slasher", me, address(0)));
        script.check(core, c);
        vm.clearMockedCalls();
        vm.etch(address(c.referee), "");
        vm.expectRevert(abi.encodeWithSelector(Checks.NoCode.selector, "referee", address(c.referee)));
        script.check(core, c);
    }

    /// @dev A core at the addresses of a network file, with both delays of `delay` blocks.
    function _stand(string memory name, uint32 delay) private {
        network = script.networkOf(name);
        vm.chainId(vm.parseJsonUint(network, ".chainId"));
        at.allocationManager = vm.parseJsonAddress(network, ".core.allocationManager");
        at.delegationManager = vm.parseJsonAddress(network, ".core.delegationManager");
        at.strategyManager = vm.parseJsonAddress(network, ".core.strategyManager");
        at.strategyFactory = vm.parseJsonAddress(network, ".core.strategyFactory");
        token = IERC20(vm.parseJsonAddress(network, ".token"));
        CoreDelays memory delays = CoreDelays(delay, 75, delay, SLASH_RESOLUTION);
        PermissionController permissions = new PermissionController();
        _place(address(token), type(TestToken).creationCode, "");
        bytes memory made = abi.encode(at.delegationManager, permissions, this, delays);
        _place(at.allocationManager, type(AllocationManager).creationCode, made);
        made = abi.encode(at.allocationManager, at.strategyManager, permissions, this, delay);
        _place(at.delegationManager, type(DelegationManager).creationCode, made);
        made = abi.encode(at.delegationManager, at.strategyFactory, this, SLASH_RESOLUTION);
        _place(at.strategyManager, type(StrategyManager).creationCode, made);
        _place(at.strategyFactory, type(StrategyFactory).creationCode, abi.encode(at.strategyManager));
        if (!vm.keyExistsJson(network, ".strategy")) return;
        at.strategy = IStrategy(vm.parseJsonAddress(network, ".strategy"));
        IStrategy made_ = StrategyFactory(at.strategyFactory).deployNewStrategy(token);
        vm.etch(address(at.strategy), address(made_).code);
        IStrategy[] memory listed = new IStrategy[](1);
        listed[0] = at.strategy;
        vm.prank(at.strategyFactory);
        StrategyManager(at.strategyManager).addStrategiesToDepositWhitelist(listed);
    }

    /// @dev Runs a constructor at an address, and leaves there what it returns.
    function _place(address where, bytes memory creation, bytes memory arguments) private {
        vm.etch(where, bytes.concat(creation, arguments));
        (bool done, bytes memory runtime) = where.call("");
        assertTrue(done, "constructed");
        vm.etch(where, runtime);
    }
}
