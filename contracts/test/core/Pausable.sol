// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

/// @title Switches that stop parts of the core; one account has them all
abstract contract Pausable {
    event Paused(address indexed account, uint256 newPausedStatus);
    event Unpaused(address indexed account, uint256 newPausedStatus);

    error CurrentlyPaused();
    error InvalidNewPausedStatus();
    error OnlyPauser();
    error OnlyUnpauser();

    address private immutable _PAUSER;

    /// @dev One bit for each part that is stopped.
    uint256 private _paused;

    modifier onlyWhenNotPaused(uint8 index) {
        if (paused(index)) revert CurrentlyPaused();
        _;
    }

    constructor(address pauser) {
        _PAUSER = pauser;
    }

    function pause(uint256 newPausedStatus) public {
        if (msg.sender != _PAUSER) revert OnlyPauser();
        if (_paused & ~newPausedStatus != 0) revert InvalidNewPausedStatus();
        _paused = newPausedStatus;
        emit Paused(msg.sender, newPausedStatus);
    }

    function pauseAll() external {
        pause(type(uint256).max);
    }

    function unpause(uint256 newPausedStatus) external {
        if (msg.sender != _PAUSER) revert OnlyUnpauser();
        if (newPausedStatus & ~_paused != 0) revert InvalidNewPausedStatus();
        _paused = newPausedStatus;
        emit Unpaused(msg.sender, newPausedStatus);
    }

    function paused() external view returns (uint256) {
        return _paused;
    }

    function paused(uint8 index) public view returns (bool) {
        return _paused >> index & 1 == 1;
    }
}
