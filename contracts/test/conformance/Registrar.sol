// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IAVSRegistrar, IAllocationManager, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";

/// @title An AVS that is its own registrar and refuses when told to
contract Registrar is IAVSRegistrar {
    error NotBooked();
    error OnlyAM();
    error Rejected();

    IAllocationManager private immutable ALLOCATION_MANAGER;

    bool private rejecting;
    bool private unsupporting;

    constructor(IAllocationManager allocationManager) {
        ALLOCATION_MANAGER = allocationManager;
    }

    function behave(bool rejecting_, bool unsupporting_) external {
        (rejecting, unsupporting) = (rejecting_, unsupporting_);
    }

    /// @dev The core books a member before it asks.
    function registerOperator(address operator, address avs, uint32[] calldata ids, bytes calldata) external view {
        _answer();
        if (!ALLOCATION_MANAGER.isMemberOfOperatorSet(operator, OperatorSet(avs, ids[0]))) revert NotBooked();
    }

    function deregisterOperator(address, address, uint32[] calldata) external view {
        _answer();
    }

    function supportsAVS(address) external view returns (bool) {
        return !unsupporting;
    }

    function _answer() private view {
        if (msg.sender != address(ALLOCATION_MANAGER)) revert OnlyAM();
        if (rejecting) revert Rejected();
    }
}
