// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title The asset of a local chain: anybody mints
contract TestToken is ERC20 {
    constructor() ERC20("Test Ether", "TETH") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }
}
