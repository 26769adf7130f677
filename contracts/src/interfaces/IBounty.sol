// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IStrategy, IStrategyManager} from "./IEigenLayer.sol";

/// @title Where slashed stake arrives, and how it is shared out
/// @notice The recipient of the operator set. The core releases what a slash took long after it: then half is burned, and
/// the other half becomes credits of the beneficiaries in the market.
interface IBounty {
    /// @notice The slash of `task` will bring `amount` wei of the token, for the beneficiaries and for nobody.
    event Noted(uint256 indexed slashId, bytes32 indexed task, uint256 amount, address[] beneficiaries);
    /// @notice Each beneficiary was credited with `share` wei; `burned` went to the market's BURN.
    event Paid(uint256 indexed slashId, bytes32 indexed task, uint256 share, uint256 burned);

    error NotTheServiceManager(address caller);
    error NothingNoted(uint256 slashId);

    /// @notice Fixes what the slash is worth, at the rate of this block. Only by the service manager, once per slash.
    /// @param shares of the strategy, that the core took
    /// @param beneficiaries who get half of it in equal parts; with none everything is burned
    function note(uint256 slashId, bytes32 task, uint256 shares, address[] calldata beneficiaries) external;

    /// @notice Shares out what the core has released, and makes it release what it can. By anybody, once per slash. Reverts
    /// as the core does while its resolution delay lasts (until `payableFrom`) or it is paused: call again later. Where
    /// somebody has had the slash released, nothing of the core is needed.
    /// @dev b = 1/2: beneficiaries get ⌊amount/2/count⌋ each, all the rest is burned. What the strategy pays beyond what was
    /// noted is burned with the last slash that is open.
    function pay(uint256 slashId) external;

    /// @notice What waits to be paid of a slash: zero amount for one that was paid or never noted.
    function noteOf(uint256 slashId)
        external
        view
        returns (bytes32 task, uint256 amount, address[] memory beneficiaries);

    /// @notice The first block in which `pay` need not wait for the core: zero for at once, as where somebody has had it
    /// released, or where the core waits for nothing. A pause of the core is not reckoned with.
    function payableFrom(uint256 slashId) external view returns (uint256 blockNumber);

    /// @notice Who notes slashes.
    function serviceManager() external view returns (address);

    /// @notice The market whose accounts are credited.
    function market() external view returns (address);

    /// @notice The strategy whose shares are slashed.
    function strategy() external view returns (IStrategy);

    /// @notice The part of the core that releases what was slashed.
    function strategyManager() external view returns (IStrategyManager);

    /// @notice What the strategy pays out, and the market is paid in.
    function token() external view returns (IERC20);
}
