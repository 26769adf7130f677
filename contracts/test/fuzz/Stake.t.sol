// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {StakeFixture} from "../StakeFixture.sol";

/// @title All that is free is locked, and everybody is convicted, whatever a unit of magnitude is worth
contract StakeFuzzTest is StakeFixture {
    /// @dev INVARIANTS 11 and 12. Each slash rounds up to units of magnitude, so without what is kept back the last lock
    /// would be short.
    function testFuzz_EveryLockIsSlashedInFull(
        uint64 own,
        uint64 foreign,
        uint96 deposit,
        uint96 queued,
        uint64[8] memory parts,
        bool deallocating
    ) public {
        own = uint64(bound(own, 1, 1e18 - 1));
        _reallocate(operator, address(manager), own);
        vm.roll(block.number + DELAY + 1);
        _slashElsewhere(operator, uint64(bound(foreign, 1, 1e18 - own)), 1e18);
        _stake(operator, bound(deposit, 1e6, 1e26));
        if (deallocating && own > 1) _reallocate(operator, address(manager), own / 2);

        uint256 end = block.number + DELAY;
        uint256[8] memory locked;
        for (uint256 i; i < 8; ++i) {
            uint256 free = manager.freeStake(operator, end);
            if (free == 0) break;
            vm.prank(operator);
            manager.setSigner(signer, CAP, type(uint96).max);
            locked[i] = _lock(bytes32(i), operator, i == 7 ? free - 1 : bound(parts[i], 0, (free - 1) / 2), end);
        }
        uint256 most = core.strategyManager.stakerDepositShares(operator, core.strategy);
        if (queued % 4 != 0) _queue(operator, bound(queued, 1, most));
        for (uint256 i; i < 8; ++i) {
            if (locked[i] == 0) break;
            uint256 unit = _unit(operator);
            (, uint256 shares) = _slash(bytes32(i), operator);
            assertGe(shares + 2, locked[i], "less than the lock");
            assertLe(shares, locked[i] + 2 * unit + 2, "more than the lock and two units");
        }
    }
}
