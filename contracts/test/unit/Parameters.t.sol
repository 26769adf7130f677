// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {TaskMarket} from "../../src/TaskMarket.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Parameters} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

contract ParametersTest is MarketFixture {
    function test_Constructor_KeepsWhatItIsGiven() public view {
        assertEq(abi.encode(market.parameters()), abi.encode(p), "parameters");
        assertEq(address(market.token()), address(token), "token");
        assertEq(address(market.serviceManager()), address(manager), "service manager");
        assertEq(address(market.game()), address(game), "game");
        assertEq(address(game.market()), address(market), "the game's market");
        assertEq(manager.market(), address(market), "the manager's market");
        assertEq(bounty.market(), address(market), "the bounty's market");
    }

    /// @dev The columns of the protocol's table live exactly as long as the core's delays allow.
    function test_Constructor_TakesEveryColumnOfTheTable() public {
        assertEq(Terms.lifetime(p, p.maxExec), 523, "local");
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
        _assertRefused(abi.encodeWithSelector(IMarket.OutlivesStake.selector, 49, 25));
        _delays(50);
        _deploy();
    }

    function test_RevertWhen_OneOfTheCoresDelaysIsTooShort() public {
        vm.mockCall(
            address(core.delegationManager), abi.encodeWithSignature("minWithdrawalDelayBlocks()"), abi.encode(522)
        );
        _assertRefused(abi.encodeWithSelector(IMarket.OutlivesStake.selector, 523, 522));
    }

    /// @dev Blocks are counted in 20 bits, whatever the core's delays are.
    function test_RevertWhen_ATaskCouldLastLongerThanItsProgressCounts() public {
        _delays(type(uint32).max);
        p.margin = 2 ** 20;
        uint256 lifetime = Terms.lifetime(p, p.maxExec);
        _assertRefused(abi.encodeWithSelector(IMarket.OutlivesStake.selector, lifetime, 2 ** 20 - 2));
        p.margin -= uint32(lifetime - (2 ** 20 - 2));
        _deploy();
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

    function test_RevertWhen_NoSeedCouldBeRecorded() public {
        p.record = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroRecord.selector));
    }

    /// @dev Invariant 26.
    function test_RevertWhen_APlayerWouldHaveNoTime() public {
        p.clock = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroClock.selector));
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

    function test_RevertWhen_TheSeedBlockCouldBeTheCommits() public {
        p.lag = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroLag.selector));
    }

    function test_RevertWhen_NobodyElseNeedsASeat() public {
        p.otherSeats = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.ZeroOtherSeats.selector));
    }

    function test_RevertWhen_AWrongResultCouldNeverBeDetected() public {
        p.checkFloor = 0;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.WrongCheckFloor.selector, 0, p.sybils));
        p.checkFloor = 1e18 + 1;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.WrongCheckFloor.selector, 1e18 + 1, p.sybils));
        (p.checkFloor, p.sybils) = (0.05e18, 1e18);
        _assertRefused(abi.encodeWithSelector(ITaskMarket.WrongCheckFloor.selector, 0.05e18, 1e18));
    }

    function test_RevertWhen_TheStakeDoesNotMakeUpForTheGain() public {
        p.stakeMargin = 1e18 - 1;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.StakeMarginBelowOne.selector, 1e18 - 1));
    }

    function test_RevertWhen_AnotherContractBelongsToAnotherMarket() public {
        address[3] memory others = [address(game), address(manager), address(bounty)];
        for (uint256 i; i < 3; ++i) {
            address next = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
            for (uint256 j; j < i; ++j) {
                _point(others[j], next);
            }
            vm.expectRevert(abi.encodeWithSelector(IMarket.NotConnected.selector, others[i]));
            new TaskMarket(manager, game, p);
        }
    }

    function test_RevertWhen_EtaIsAboveOne() public {
        p.eta = 1e18 + 1;
        _assertRefused(abi.encodeWithSelector(ITaskMarket.EtaAboveOne.selector, 1e18 + 1));
        p.eta = 1e18;
        _deploy();
    }

    function _deploy() private returns (TaskMarket) {
        return _marketWith();
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
        return _windows(3, 2, 1, 5, 2, 3, 2, 11, 2);
    }

    function _mainnet() private view returns (Parameters memory) {
        return _windows(7_200, 128, 16, 1_800, 300, 1_800, 7_200, 7_200, 21_600);
    }

    function _windows(
        uint24 maxExec,
        uint32 lag,
        uint32 grid,
        uint32 record,
        uint32 check,
        uint32 reveal,
        uint32 challenge,
        uint32 clock,
        uint32 margin
    ) private view returns (Parameters memory q) {
        q = p;
        (q.maxExec, q.lag, q.grid, q.record, q.check) = (maxExec, lag, grid, record, check);
        (q.reveal, q.challenge, q.clock, q.margin) = (reveal, challenge, clock, margin);
    }
}
