// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IBounty} from "./interfaces/IBounty.sol";
import {IStrategy, IStrategyManager, OperatorSet} from "./interfaces/IEigenLayer.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";
import {ITaskMarket} from "./interfaces/ITaskMarket.sol";

/// @title Where slashed stake arrives; see IBounty
contract Bounty is IBounty, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    struct Note {
        bytes32 task;
        uint256 amount;
        address[] beneficiaries;
    }

    /// @inheritdoc IBounty
    address public immutable serviceManager;
    /// @inheritdoc IBounty
    address public immutable market;
    /// @inheritdoc IBounty
    IStrategy public immutable strategy;
    /// @inheritdoc IBounty
    IStrategyManager public immutable strategyManager;
    /// @inheritdoc IBounty
    IERC20 public immutable token;

    mapping(uint256 slashId => Note) private _notes;
    /// @dev The sum of all notes.
    uint256 private _noted;

    constructor(address serviceManager_, address market_, IStrategyManager strategyManager_, IStrategy strategy_) {
        serviceManager = serviceManager_;
        market = market_;
        strategyManager = strategyManager_;
        strategy = strategy_;
        token = strategy_.underlyingToken();
    }

    /// @inheritdoc IBounty
    function note(uint256 slashId, bytes32 task, uint256 shares, address[] calldata beneficiaries) external {
        if (msg.sender != serviceManager) revert NotTheServiceManager(msg.sender);
        uint256 amount = strategy.sharesToUnderlyingView(shares);
        _notes[slashId] = Note(task, amount, beneficiaries);
        _noted += amount;
        emit Noted(slashId, task, amount, beneficiaries);
    }

    /// @inheritdoc IBounty
    function pay(uint256 slashId) external nonReentrant {
        Note memory n = _notes[slashId];
        if (n.amount == 0) revert NothingNoted(slashId);
        delete _notes[slashId];
        _noted -= n.amount;
        // Anybody may have had it released before: then the core, which may be paused, is not needed.
        OperatorSet memory operatorSet = _operatorSet();
        if (strategyManager.getBurnOrRedistributableCount(operatorSet, slashId) != 0) {
            strategyManager.clearBurnOrRedistributableShares(operatorSet, slashId);
        }

        uint256 balance = token.balanceOf(address(this));
        uint256 amount = Math.min(n.amount, balance);
        uint256 count = n.beneficiaries.length;
        uint256 share = count == 0 ? 0 : amount / 2 / count;
        uint256 burned = (_noted == 0 ? balance : amount) - share * count;
        emit Paid(slashId, n.task, share, burned);
        token.forceApprove(market, share * count + burned);
        // INVARIANT 6: credits in the market; nobody's account can stop the others' payment.
        for (uint256 i; share != 0 && i < count; ++i) {
            ITaskMarket(market).deposit(n.beneficiaries[i], share);
        }
        ITaskMarket(market).deposit(ITaskMarket(market).BURN(), burned);
    }

    /// @inheritdoc IBounty
    function noteOf(uint256 slashId)
        external
        view
        returns (bytes32 task, uint256 amount, address[] memory beneficiaries)
    {
        Note memory n = _notes[slashId];
        return (n.task, n.amount, n.beneficiaries);
    }

    /// @inheritdoc IBounty
    function payableFrom(uint256 slashId) external view returns (uint256 blockNumber) {
        OperatorSet memory operatorSet = _operatorSet();
        if (strategyManager.getBurnOrRedistributableCount(operatorSet, slashId) == 0) return 0;
        try strategyManager.getSlashResolutionBlock(operatorSet, slashId) returns (uint32 last) {
            return uint256(last) + 1;
        } catch {
            return 0; // a core before 1.13, which does not wait
        }
    }

    function _operatorSet() private view returns (OperatorSet memory) {
        return OperatorSet(serviceManager, IServiceManager(serviceManager).OPERATOR_SET());
    }
}
