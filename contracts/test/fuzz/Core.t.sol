// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {
    AllocateParams,
    CreateSetParamsV2,
    IAVSRegistrar,
    OperatorSet,
    RegisterParams,
    SlashingParams
} from "../../src/interfaces/IEigenLayer.sol";
import {LocalCore} from "../core/LocalCore.sol";
import {TestToken} from "../core/TestToken.sol";
import {Delays, QueuedWithdrawalParams, Withdrawal} from "../core/Types.sol";

/// @title Stake under allocations, withdrawals and slashes in any order
/// @dev The test is AVS, registrar, slasher, operator and its only staker.
contract CoreFuzzTest is Test, IAVSRegistrar {
    uint256 private constant STAKE = 1_000 ether;
    /// @dev Wei that roundings may take or give, in all.
    uint256 private constant ROUNDING = 1_024;

    LocalCore.Core private core;
    OperatorSet private set = OperatorSet(address(this), 0);
    address[] private strategies;

    function setUp() public {
        vm.roll(10_000);
        TestToken token = new TestToken();
        core = LocalCore.deploy(address(this), token, Delays(50, 75, 50, 50_400));
        strategies.push(address(core.strategy));
        token.mint(address(this), STAKE);
        token.approve(address(core.strategyManager), STAKE);
        core.strategyManager.depositIntoStrategy(core.strategy, token, STAKE);
        core.delegationManager.registerAsOperator(address(0), 0, "");
        core.allocationManager.updateAVSMetadataURI(address(this), "");
        CreateSetParamsV2[] memory params = new CreateSetParamsV2[](1);
        params[0] = CreateSetParamsV2(0, strategies, address(this));
        core.allocationManager.createOperatorSets(address(this), params);
        core.allocationManager
            .registerForOperatorSets(address(this), RegisterParams(address(this), new uint32[](1), ""));
    }

    function registerOperator(address, address, uint32[] calldata, bytes calldata) external pure {}

    function deregisterOperator(address, address, uint32[] calldata) external pure {}

    function supportsAVS(address) external pure returns (bool) {
        return true;
    }

    /// @dev What is slashed, delegated and queued is what was deposited. The core rounds the queue as a whole in slashes
    /// and each withdrawal alone at its end, so the sum can also be some wei more.
    function testFuzz_NoShareIsMadeOrLostButRoundings(uint64 magnitude, uint64[4] memory wads, uint96[4] memory amounts)
        public
    {
        _allocate(uint64(bound(magnitude, 1, 1e18)));
        uint256 slashed;
        for (uint256 i; i < wads.length; ++i) {
            _queue(amounts[i]);
            slashed += _slash(bound(wads[i], 1, 1e18));
            vm.roll(block.number + 7);
        }
        uint256 left = core.delegationManager.operatorShares(address(this), core.strategy) + _queued();
        assertApproxEqAbs(slashed + left, STAKE, ROUNDING, "made or lost");
    }

    /// @dev Until the block that it names, at least the minimum can be slashed, whatever the operator does.
    function testFuzz_TheMinimumCanBeSlashed(uint64 magnitude, uint64 lower, uint96 amount, uint8 passing) public {
        magnitude = uint64(bound(magnitude, 1e9, 1e18));
        _allocate(magnitude);
        uint256 promised = core.allocationManager
        .getMinimumSlashableStake(set, _operators(), strategies, uint32(block.number + 50))[0][0];
        _allocate(uint64(bound(lower, 0, magnitude - 1)));
        _queue(amount);
        vm.roll(block.number + bound(passing, 0, 50));
        assertGe(_slash(1e18) + ROUNDING, promised, "less than promised");
    }

    function _operators() private view returns (address[] memory operators) {
        operators = new address[](1);
        operators[0] = address(this);
    }

    function _allocate(uint64 magnitude) private {
        AllocateParams[] memory params = new AllocateParams[](1);
        params[0] = AllocateParams(set, strategies, new uint64[](1));
        params[0].newMagnitudes[0] = magnitude;
        core.allocationManager.modifyAllocations(address(this), params);
    }

    function _queue(uint256 amount) private {
        amount = bound(amount, 0, core.strategyManager.stakerDepositShares(address(this), core.strategy));
        if (amount == 0) return;
        QueuedWithdrawalParams[] memory params = new QueuedWithdrawalParams[](1);
        params[0] = QueuedWithdrawalParams(strategies, new uint256[](1), address(0));
        params[0].depositShares[0] = amount;
        core.delegationManager.queueWithdrawals(params);
    }

    function _slash(uint256 wad) private returns (uint256) {
        uint256[] memory wads = new uint256[](1);
        wads[0] = wad;
        SlashingParams memory params = SlashingParams(address(this), 0, strategies, wads, "");
        (, uint256[] memory shares) = core.allocationManager.slashOperator(address(this), params);
        return shares[0];
    }

    function _queued() private view returns (uint256 sum) {
        (Withdrawal[] memory withdrawals, uint256[][] memory shares) =
            core.delegationManager.getQueuedWithdrawals(address(this));
        for (uint256 i; i < withdrawals.length; ++i) {
            sum += shares[i][0];
        }
    }
}
