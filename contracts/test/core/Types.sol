// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {OperatorSet} from "../../src/interfaces/IEigenLayer.sol";

// What the stand-in core takes and gives beyond what this project's contracts use of it.

uint64 constant WAD = 1e18;
address constant BURN_ADDRESS = 0x00000000000000000000000000000000000E16E4;
address constant BEACON_CHAIN_ETH = 0xbeaC0eeEeeeeEEeEeEEEEeeEEeEeeeEeeEEBEaC0;

struct CreateSetParams {
    uint32 operatorSetId;
    address[] strategies;
}

struct SignatureWithExpiry {
    bytes signature;
    uint256 expiry;
}

struct QueuedWithdrawalParams {
    address[] strategies;
    uint256[] depositShares;
    address __deprecated_withdrawer;
}

struct Withdrawal {
    address staker;
    address delegatedTo;
    address withdrawer;
    uint256 nonce;
    uint32 startBlock;
    address[] strategies;
    uint256[] scaledShares;
}

/// @dev How long things take, in blocks.
struct Delays {
    uint32 deallocation;
    uint32 configuration;
    uint32 withdrawal;
    uint32 slashResolution;
}

function keyOf(OperatorSet memory operatorSet) pure returns (bytes32) {
    return bytes32(abi.encodePacked(operatorSet.avs, uint96(operatorSet.id)));
}

function setOf(bytes32 key) pure returns (OperatorSet memory) {
    return OperatorSet(address(bytes20(key)), uint32(uint256(key)));
}
