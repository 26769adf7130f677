// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IAVSRegistrar, IAllocationManager, IDelegationManager, IStrategy} from "./IEigenLayer.sol";

/// @title The AVS
/// @notice Identity, registrar and slasher of one EigenLayer operator set with one strategy, and the list of the
/// operators' hot signers. Nobody can change its slasher, registrar, strategies or recipient: no function does.
/// @dev It slashes nobody until conviction exists. An operator joins and leaves through EigenLayer's AllocationManager.
interface IServiceManager is IAVSRegistrar {
    /// @notice The operator joined the operator set.
    event OperatorJoined(address indexed operator);
    /// @notice The operator left the operator set. Its tasks go on.
    event OperatorLeft(address indexed operator);
    /// @notice `signer` acts for the operator in the market, and holds at most `collateralCap` wei of its balance in tasks.
    event SignerSet(address indexed operator, address indexed signer, uint96 collateralCap);

    error NotTheAllocationManager(address caller);
    error WrongAVS(address avs);
    error WrongOperatorSets(uint32[] operatorSetIds);

    /// @notice Names the hot signer of the caller, an operator, and what it may hold as collateral at any time, in wei.
    /// Zero removes the signer. Tasks accepted before go on with the new signer.
    function setSigner(address signer, uint96 collateralCap) external;

    /// @notice The operator's signer (zero: none) and cap.
    function signerOf(address operator) external view returns (address signer, uint96 collateralCap);

    /// @notice Whether the operator is in the operator set now.
    function isMember(address operator) external view returns (bool);

    /// @notice Blocks for which stake that is there now can be slashed, whatever its owners do: the lesser of
    /// EigenLayer's deallocation and withdrawal delays, read live.
    function stakeDelay() external view returns (uint256);

    function allocationManager() external view returns (IAllocationManager);

    function delegationManager() external view returns (IDelegationManager);

    /// @notice The single strategy; its underlying token is what the market is paid in.
    function strategy() external view returns (IStrategy);

    /// @notice The id of the operator set.
    function OPERATOR_SET() external view returns (uint32);
}
