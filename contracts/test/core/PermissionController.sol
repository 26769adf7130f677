// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";

/// @title Stand-in for EigenLayer's PermissionController on a local chain
/// @notice An account is its own admin until it has others; admins name appointees for single functions.
contract PermissionController {
    using EnumerableSet for EnumerableSet.AddressSet;
    using EnumerableSet for EnumerableSet.Bytes32Set;

    struct Permissions {
        EnumerableSet.AddressSet admins;
        EnumerableSet.AddressSet pendingAdmins;
        mapping(address appointee => EnumerableSet.Bytes32Set) functions;
        mapping(bytes32 permission => EnumerableSet.AddressSet) appointees;
    }

    event AdminSet(address indexed account, address admin);
    event AdminRemoved(address indexed account, address admin);
    event PendingAdminAdded(address indexed account, address admin);
    event PendingAdminRemoved(address indexed account, address admin);
    event AppointeeSet(address indexed account, address indexed appointee, address target, bytes4 selector);
    event AppointeeRemoved(address indexed account, address indexed appointee, address target, bytes4 selector);

    error AdminAlreadyPending();
    error AdminAlreadySet();
    error AdminNotPending();
    error AdminNotSet();
    error AppointeeAlreadySet();
    error AppointeeNotSet();
    error CannotHaveZeroAdmins();
    error NotAdmin();

    mapping(address account => Permissions) private _permissions;

    modifier onlyAdmin(address account) {
        if (!isAdmin(account, msg.sender)) revert NotAdmin();
        _;
    }

    function addPendingAdmin(address account, address admin) external onlyAdmin(account) {
        Permissions storage permissions = _permissions[account];
        if (permissions.admins.contains(admin)) revert AdminAlreadySet();
        if (!permissions.pendingAdmins.add(admin)) revert AdminAlreadyPending();
        emit PendingAdminAdded(account, admin);
    }

    function removePendingAdmin(address account, address admin) external onlyAdmin(account) {
        if (!_permissions[account].pendingAdmins.remove(admin)) revert AdminNotPending();
        emit PendingAdminRemoved(account, admin);
    }

    function acceptAdmin(address account) external {
        Permissions storage permissions = _permissions[account];
        if (!permissions.pendingAdmins.remove(msg.sender)) revert AdminNotPending();
        permissions.admins.add(msg.sender);
        emit AdminSet(account, msg.sender);
    }

    function removeAdmin(address account, address admin) external onlyAdmin(account) {
        EnumerableSet.AddressSet storage admins = _permissions[account].admins;
        if (admins.length() <= 1) revert CannotHaveZeroAdmins();
        if (!admins.remove(admin)) revert AdminNotSet();
        emit AdminRemoved(account, admin);
    }

    function setAppointee(address account, address appointee, address target, bytes4 selector)
        external
        onlyAdmin(account)
    {
        bytes32 permission = _encode(target, selector);
        Permissions storage permissions = _permissions[account];
        if (!permissions.functions[appointee].add(permission)) revert AppointeeAlreadySet();
        permissions.appointees[permission].add(appointee);
        emit AppointeeSet(account, appointee, target, selector);
    }

    function removeAppointee(address account, address appointee, address target, bytes4 selector)
        external
        onlyAdmin(account)
    {
        bytes32 permission = _encode(target, selector);
        Permissions storage permissions = _permissions[account];
        if (!permissions.functions[appointee].remove(permission)) revert AppointeeNotSet();
        permissions.appointees[permission].remove(appointee);
        emit AppointeeRemoved(account, appointee, target, selector);
    }

    function canCall(address account, address caller, address target, bytes4 selector) external view returns (bool) {
        return isAdmin(account, caller) || _permissions[account].functions[caller].contains(_encode(target, selector));
    }

    function isAdmin(address account, address caller) public view returns (bool) {
        EnumerableSet.AddressSet storage admins = _permissions[account].admins;
        return admins.length() == 0 ? account == caller : admins.contains(caller);
    }

    function isPendingAdmin(address account, address admin) external view returns (bool) {
        return _permissions[account].pendingAdmins.contains(admin);
    }

    function getAdmins(address account) external view returns (address[] memory admins) {
        admins = _permissions[account].admins.values();
        if (admins.length == 0) {
            admins = new address[](1);
            admins[0] = account;
        }
    }

    function getPendingAdmins(address account) external view returns (address[] memory) {
        return _permissions[account].pendingAdmins.values();
    }

    function getAppointees(address account, address target, bytes4 selector) external view returns (address[] memory) {
        return _permissions[account].appointees[_encode(target, selector)].values();
    }

    function getAppointeePermissions(address account, address appointee)
        external
        view
        returns (address[] memory targets, bytes4[] memory selectors)
    {
        bytes32[] memory permissions = _permissions[account].functions[appointee].values();
        targets = new address[](permissions.length);
        selectors = new bytes4[](permissions.length);
        for (uint256 i; i < permissions.length; ++i) {
            targets[i] = address(bytes20(permissions[i]));
            selectors[i] = bytes4(permissions[i] << 160);
        }
    }

    function _encode(address target, bytes4 selector) private pure returns (bytes32) {
        return bytes32(abi.encodePacked(target, selector));
    }
}

/// @title What acts for accounts only on the word of those who may
abstract contract Permissioned {
    error InvalidPermissions();

    PermissionController public immutable permissionController;

    modifier checkCanCall(address account) {
        if (!_canCall(account)) revert InvalidPermissions();
        _;
    }

    constructor(PermissionController permissionController_) {
        permissionController = permissionController_;
    }

    function _canCall(address account) internal view returns (bool) {
        return permissionController.canCall(account, msg.sender, address(this), msg.sig);
    }
}
