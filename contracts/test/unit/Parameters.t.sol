// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {TaskMarket} from "../../src/TaskMarket.sol";
import {IDisputeGame} from "../../src/interfaces/IDisputeGame.sol";
import {ITaskMarket, Parameters} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {Fixture} from "../Fixture.sol";

contract ParametersTest is Fixture {
    function test_Constructor_KeepsWhatItIsGiven() public view {
        assertEq(abi.encode(market.parameters()), abi.encode(p), "parameters");
        assertEq(address(market.token()), address(token), "token");
        assertEq(address(market.serviceManager()), address(manager), "service manager");
        assertEq(address(market.game()), address(0), "game");
    }

    /// @dev The columns of the protocol's table live exactly as long as the core's delays allow.
    function test_Constructor_TakesEveryColumnOfTheTable() public {
        assertEq(Terms.lifetime(p, p.maxExec), 503, "local");
        p = _testnet();
        assertEq(Terms.lifetime(p, p.maxExec), 49, "testnet");
        p = _mainnet();
        assertEq(Terms.lifetime(p, p.maxExec), 81_444, "mainnet");
        _delays(100_800);
        _deploy();
    }

    function test_RevertWhen_TheCoresDelaysAreTooShort() public {
        p = _testnet();
        _delays(25);
        _assertRefused(abi.encodeWithSelector(ITaskMarket.OutlivesStake.selector, 49, 25));
        _delays(50);
        _deploy();
    }

    function test_RevertWhen_OneOfTheCoresDelaysIsTooShort() public {
        vm.mockCall(
            address(core.delegationManager), abi.encodeWithSignature("minWithdrawalDelayBlocks()"), abi.encode(502)
        );
        _assertRefused(abi.encodeWithSelector(ITaskMarket.OutlivesStake.selector, 503, 502));
    }

    function test_RevertWhen_NothingCanBeExecuted() public {
        p.maxExec = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroMaxExec.selector));
    }

    function test_RevertWhen_TheGridIsZero() public {
        p.grid = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroGrid.selector));
    }

    function test_RevertWhen_NobodyCouldReveal() public {
        p.reveal = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroReveal.selector));
    }

    function test_RevertWhen_ASeedCouldFallOutOfHistory() public {
        p.record = 8192;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.RecordBeyondHistory.selector, 8192, 8191));
    }

    function test_RevertWhen_TheChallengeWindowIsShorterThanTheReveal() public {
        p.challenge = p.reveal - 2;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ChallengeShorterThanReveal.selector, p.challenge, p.reveal));
        p.challenge = p.reveal - 1;
        _deploy();
    }

    function test_RevertWhen_EtaIsAboveOne() public {
        p.eta = 1e18 + 1;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.EtaAboveOne.selector, 1e18 + 1));
        p.eta = 1e18;
        _deploy();
    }

    function _deploy() private returns (TaskMarket) {
        return new TaskMarket(manager, IDisputeGame(address(0)), p);
    }

    function _assertRefused(bytes memory reason) private {
        vm.expectRevert(reason);
        _deploy();
    }

    function _delays(uint32 delay) private {
        bytes memory answer = abi.encode(delay);
        vm.mockCall(address(core.allocationManager), abi.encodeWithSignature("DEALLOCATION_DELAY()"), answer);
        vm.mockCall(address(core.delegationManager), abi.encodeWithSignature("minWithdrawalDelayBlocks()"), answer);
    }

    function _testnet() private view returns (Parameters memory) {
        return Parameters(3, 2, 1, 5, 2, 3, 2, 11, 2, p.eta, p.gDef, p.gMiss);
    }

    function _mainnet() private view returns (Parameters memory) {
        return Parameters(7_200, 128, 16, 1_800, 300, 1_800, 7_200, 7_200, 21_600, p.eta, p.gDef, p.gMiss);
    }
}
