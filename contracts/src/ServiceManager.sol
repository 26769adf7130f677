// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {
    CreateSetParamsV2,
    IAVSRegistrar,
    IAllocationManager,
    IDelegationManager,
    IStrategy,
    OperatorSet
} from "./interfaces/IEigenLayer.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";

/// @title The AVS; see IServiceManager
contract ServiceManager is IServiceManager {
    struct Signer {
        address signer;
        uint96 collateralCap;
    }

    uint32 public constant OPERATOR_SET = 0;

    IAllocationManager public immutable allocationManager;
    IDelegationManager public immutable delegationManager;
    IStrategy public immutable strategy;

    mapping(address operator => Signer) private _signers;

    /// @dev The registrar is this contract because EigenLayer's default is the AVS itself; the slasher is fixed here.
    constructor(
        IAllocationManager allocationManager_,
        IDelegationManager delegationManager_,
        IStrategy strategy_,
        string memory metadataURI
    ) {
        allocationManager = allocationManager_;
        delegationManager = delegationManager_;
        strategy = strategy_;

        address[] memory strategies = new address[](1);
        strategies[0] = address(strategy_);
        CreateSetParamsV2[] memory sets = new CreateSetParamsV2[](1);
        sets[0] = CreateSetParamsV2(OPERATOR_SET, strategies, address(this));
        allocationManager_.updateAVSMetadataURI(address(this), metadataURI);
        allocationManager_.createOperatorSets(address(this), sets);
    }

    /// @inheritdoc IServiceManager
    function setSigner(address signer, uint96 collateralCap) external {
        _signers[msg.sender] = Signer(signer, collateralCap);
        emit SignerSet(msg.sender, signer, collateralCap);
    }

    /// @inheritdoc IAVSRegistrar
    function registerOperator(address operator, address avs, uint32[] calldata operatorSetIds, bytes calldata)
        external
    {
        _checkCallback(avs, operatorSetIds);
        emit OperatorJoined(operator);
    }

    /// @inheritdoc IAVSRegistrar
    function deregisterOperator(address operator, address avs, uint32[] calldata operatorSetIds) external {
        _checkCallback(avs, operatorSetIds);
        emit OperatorLeft(operator);
    }

    /// @inheritdoc IAVSRegistrar
    function supportsAVS(address avs) external view returns (bool) {
        return avs == address(this);
    }

    /// @inheritdoc IServiceManager
    function signerOf(address operator) external view returns (address signer, uint96 collateralCap) {
        Signer memory s = _signers[operator];
        return (s.signer, s.collateralCap);
    }

    /// @inheritdoc IServiceManager
    function isMember(address operator) external view returns (bool) {
        return allocationManager.isMemberOfOperatorSet(operator, OperatorSet(address(this), OPERATOR_SET));
    }

    /// @inheritdoc IServiceManager
    function stakeDelay() external view returns (uint256) {
        uint256 deallocation = allocationManager.DEALLOCATION_DELAY();
        uint256 withdrawal = delegationManager.minWithdrawalDelayBlocks();
        return deallocation < withdrawal ? deallocation : withdrawal;
    }

    function _checkCallback(address avs, uint32[] calldata operatorSetIds) private view {
        if (msg.sender != address(allocationManager)) revert NotTheAllocationManager(msg.sender);
        if (avs != address(this)) revert WrongAVS(avs);
        if (operatorSetIds.length != 1 || operatorSetIds[0] != OPERATOR_SET) revert WrongOperatorSets(operatorSetIds);
    }
}
