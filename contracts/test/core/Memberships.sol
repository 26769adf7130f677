// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {DeregisterParams, IDelegationManager, OperatorSet, RegisterParams} from "../../src/interfaces/IEigenLayer.sol";
import {OperatorSets} from "./OperatorSets.sol";
import {keyOf, setOf} from "./Types.sol";

/// @title Who is a member of which operator set, and who still answers for having been
abstract contract Memberships is OperatorSets {
    using EnumerableSet for EnumerableSet.AddressSet;
    using EnumerableSet for EnumerableSet.Bytes32Set;

    struct Membership {
        bool registered;
        uint32 slashableUntil;
    }

    event OperatorAddedToOperatorSet(address indexed operator, OperatorSet operatorSet);
    event OperatorRemovedFromOperatorSet(address indexed operator, OperatorSet operatorSet);

    error AlreadyMemberOfSet();
    error InvalidCaller();
    error InvalidOperator();
    error NotMemberOfSet();

    uint8 internal constant PAUSED_REGISTRATION = 2;

    IDelegationManager public immutable delegation;

    mapping(bytes32 operatorSet => EnumerableSet.AddressSet) private _members;
    mapping(address operator => EnumerableSet.Bytes32Set) private _registeredSets;
    mapping(address operator => mapping(bytes32 operatorSet => Membership)) private _memberships;

    constructor(IDelegationManager delegation_) {
        delegation = delegation_;
    }

    /// @notice The registrar is called when the membership stands already, and what it reverts with passes through.
    function registerForOperatorSets(address operator, RegisterParams calldata params)
        external
        onlyWhenNotPaused(PAUSED_REGISTRATION)
        checkCanCall(operator)
    {
        if (!delegation.isOperator(operator)) revert InvalidOperator();
        for (uint256 i; i < params.operatorSetIds.length; ++i) {
            OperatorSet memory operatorSet = OperatorSet(params.avs, params.operatorSetIds[i]);
            _checkExists(operatorSet);
            if (isOperatorSlashable(operator, operatorSet)) revert AlreadyMemberOfSet();
            bytes32 key = keyOf(operatorSet);
            _registeredSets[operator].add(key);
            _members[key].add(operator);
            _memberships[operator][key].registered = true;
            emit OperatorAddedToOperatorSet(operator, operatorSet);
        }
        getAVSRegistrar(params.avs).registerOperator(operator, params.avs, params.operatorSetIds, params.data);
    }

    /// @notice A registrar that reverts keeps the operator in.
    function deregisterFromOperatorSets(DeregisterParams calldata params)
        external
        onlyWhenNotPaused(PAUSED_REGISTRATION)
    {
        if (!_canCall(params.operator) && !_canCall(params.avs)) revert InvalidCaller();
        for (uint256 i; i < params.operatorSetIds.length; ++i) {
            OperatorSet memory operatorSet = OperatorSet(params.avs, params.operatorSetIds[i]);
            _checkExists(operatorSet);
            bytes32 key = keyOf(operatorSet);
            if (!_registeredSets[params.operator].remove(key)) revert NotMemberOfSet();
            _members[key].remove(params.operator);
            _memberships[params.operator][key] = Membership(false, uint32(block.number) + DEALLOCATION_DELAY);
            emit OperatorRemovedFromOperatorSet(params.operator, operatorSet);
        }
        getAVSRegistrar(params.avs).deregisterOperator(params.operator, params.avs, params.operatorSetIds);
    }

    function isMemberOfOperatorSet(address operator, OperatorSet memory operatorSet) public view returns (bool) {
        return _memberships[operator][keyOf(operatorSet)].registered;
    }

    function isOperatorSlashable(address operator, OperatorSet memory operatorSet) public view returns (bool) {
        Membership memory membership = _memberships[operator][keyOf(operatorSet)];
        return membership.registered || block.number <= membership.slashableUntil;
    }

    function getMembers(OperatorSet memory operatorSet) external view returns (address[] memory) {
        return _members[keyOf(operatorSet)].values();
    }

    function getMemberCount(OperatorSet memory operatorSet) external view returns (uint256) {
        return _members[keyOf(operatorSet)].length();
    }

    function getRegisteredSets(address operator) external view returns (OperatorSet[] memory) {
        return _toSets(_registeredSets[operator]);
    }

    function _toSets(EnumerableSet.Bytes32Set storage keys) internal view returns (OperatorSet[] memory sets) {
        sets = new OperatorSet[](keys.length());
        for (uint256 i; i < sets.length; ++i) {
            sets[i] = setOf(keys.at(i));
        }
    }
}
