// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {SlotDerivation} from "@openzeppelin/contracts/utils/SlotDerivation.sol";
import {TransientSlot} from "@openzeppelin/contracts/utils/TransientSlot.sol";
import {IAllocationManager, IDelegationManager, IPausable, IStrategy, OperatorSet} from "../interfaces/IEigenLayer.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";

/// @dev Whom to ask about which operator set.
struct Core {
    IAllocationManager allocationManager;
    IDelegationManager delegationManager;
    IStrategy strategy;
    OperatorSet operatorSet;
}

/// @title What of an operator's stake EigenLayer lets an operator set slash, in shares of its strategy
library Slashable {
    using SafeCast for uint256;
    using SlotDerivation for bytes32;
    using TransientSlot for bytes32;
    using TransientSlot for TransientSlot.Uint256Slot;

    /// @dev Shares kept back for the rounding of one slash where a unit of magnitude is worth little.
    uint256 private constant ROUNDING = 1_024;
    /// @dev Bit of the core's AllocationManager that stops slashes.
    uint8 private constant PAUSED_SLASHING = 1;
    /// @dev Where this transaction's answers are kept: the block, the rounding, the least.
    bytes32 private constant KNOWN = keccak256("eigentensor.Slashable.known");

    /// @notice What a slash of everything would take now. EigenLayer's `getAllocatedStake` leaves out what waits to be
    /// withdrawn.
    function all(Core memory core, address operator) internal view returns (uint256) {
        address strategy = address(core.strategy);
        uint256 most = core.allocationManager.getMaxMagnitude(operator, strategy);
        if (most == 0) return 0;
        uint256 allocated = core.allocationManager.getAllocation(operator, core.operatorSet, strategy).currentMagnitude;
        uint256 queued = core.delegationManager.getSlashableSharesInQueue(operator, core.strategy);
        return Math.mulDiv(core.delegationManager.operatorShares(operator, core.strategy) + queued, allocated, most);
    }

    /// @return least shares that can be slashed in every block until `end`, whatever starts now; none of who is no member
    /// @return rounding what a lock of them has to keep back
    function until(Core memory core, address operator, uint256 end)
        internal
        view
        returns (uint256 least, uint256 rounding)
    {
        least = leastUntil(core, operator, end);
        if (least == 0) return (0, ROUNDING);
        uint256 unit = Math.ceilDiv(
            core.delegationManager.operatorShares(operator, core.strategy),
            core.allocationManager.getMaxMagnitude(operator, address(core.strategy))
        );
        rounding = Math.max(ROUNDING, 2 * unit + 4);
    }

    /// @notice As `until`, without the rounding of a lock.
    function leastUntil(Core memory core, address operator, uint256 end) internal view returns (uint256) {
        // The core's view answers for who has left too, however soon that ends.
        if (!core.allocationManager.isMemberOfOperatorSet(operator, core.operatorSet)) return 0;
        return core.allocationManager
            .getMinimumSlashableStake(
                core.operatorSet, one(operator), one(address(core.strategy)), end.toUint32()
            )[0][0];
    }

    /// @notice Whether the core slashes nobody now.
    function isPaused(Core memory core) internal view returns (bool) {
        return IPausable(address(core.allocationManager)).paused(PAUSED_SLASHING);
    }

    /// @notice As `until`, both bounded by 2^96 - 1, and asked once in a transaction: whatever starts after the question
    /// leaves the stake slashable until `end`. Who slashes must `forget`. Reverts while the core is paused.
    function untilOnce(Core memory core, address operator, uint256 end)
        internal
        returns (uint256 least, uint256 rounding)
    {
        TransientSlot.Uint256Slot slot = KNOWN.deriveMapping(operator).asUint256();
        uint256 known = slot.tload();
        if (known >> 192 >= end) return (known & type(uint96).max, known >> 96 & type(uint96).max);
        // INVARIANT 44: nothing is accepted that could not be slashed for.
        if (isPaused(core)) revert IServiceManager.SlashingPaused();
        (least, rounding) = until(core, operator, end);
        (least, rounding) = (Math.min(least, type(uint96).max), Math.min(rounding, type(uint96).max));
        slot.tstore(end << 192 | rounding << 96 | least);
    }

    function forget(address operator) internal {
        KNOWN.deriveMapping(operator).asUint256().tstore(0);
    }

    /// @notice A list of one, as the core wants them.
    function one(address element) internal pure returns (address[] memory list) {
        list = new address[](1);
        list[0] = element;
    }
}
