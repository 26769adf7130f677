// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IBounty} from "./interfaces/IBounty.sol";
import {
    CreateSetParamsV2,
    IAVSRegistrar,
    IAllocationManager,
    IDelegationManager,
    IStrategy,
    OperatorSet,
    SlashingParams
} from "./interfaces/IEigenLayer.sol";
import {IServiceManager, Lock, Membership} from "./interfaces/IServiceManager.sol";
import {ITaskMarket} from "./interfaces/ITaskMarket.sol";
import {Seats} from "./libraries/Seats.sol";
import {Core, Slashable} from "./libraries/Slashable.sol";

/// @title The AVS; see IServiceManager
contract ServiceManager is IServiceManager {
    using SafeCast for uint256;
    using Seats for Seats.Array;
    using Slashable for Core;

    struct Signer {
        address signer;
        uint96 collateralCap;
    }

    /// @dev `locked`: shares in open locks, with what is kept back for rounding; below 2^96 as every cap.
    struct Stake {
        uint96 cap;
        uint96 locked;
    }

    uint256 private constant WAD = 1e18;
    /// @inheritdoc IServiceManager
    uint32 public constant OPERATOR_SET = 0;

    /// @inheritdoc IServiceManager
    IAllocationManager public immutable allocationManager;
    /// @inheritdoc IServiceManager
    IDelegationManager public immutable delegationManager;
    /// @inheritdoc IServiceManager
    IStrategy public immutable strategy;
    /// @inheritdoc IServiceManager
    address public immutable market;
    /// @inheritdoc IServiceManager
    address public immutable channels;
    /// @inheritdoc IServiceManager
    IBounty public immutable bounty;
    /// @inheritdoc IServiceManager
    uint256 public immutable SEAT;

    mapping(address operator => Signer) private _signers;
    mapping(address operator => Stake) private _stakes;
    mapping(bytes32 task => mapping(address operator => Lock)) private _locks;
    Seats.Array private _seats;

    modifier onlyMarket() {
        if (!_isMarket()) revert NotTheMarket(msg.sender);
        _;
    }

    modifier onlyFor(address operator) {
        if (msg.sender != operator && msg.sender != _signers[operator].signer) {
            revert NotTheOperator(msg.sender, operator);
        }
        _;
    }

    /// @dev INVARIANT 18: slasher, registrar (EigenLayer's default: the AVS itself), strategies and recipient are fixed here;
    /// no other function speaks to the core as the AVS but `slash`.
    constructor(
        IAllocationManager allocationManager_,
        IDelegationManager delegationManager_,
        IStrategy strategy_,
        address market_,
        address channels_,
        IBounty bounty_,
        uint256 seat,
        string memory metadataURI
    ) {
        bool fits = bounty_.serviceManager() == address(this) && bounty_.market() == market_
            && bounty_.strategy() == strategy_;
        if (!fits) revert WrongBounty(address(bounty_));
        if (seat == 0) revert ZeroSeat();
        allocationManager = allocationManager_;
        delegationManager = delegationManager_;
        strategy = strategy_;
        (market, channels) = (market_, channels_);
        bounty = bounty_;
        SEAT = seat;

        CreateSetParamsV2[] memory sets = new CreateSetParamsV2[](1);
        sets[0] = CreateSetParamsV2(OPERATOR_SET, Slashable.one(address(strategy_)), address(this));
        allocationManager_.updateAVSMetadataURI(address(this), metadataURI);
        allocationManager_.createRedistributingOperatorSets(address(this), sets, Slashable.one(address(bounty_)));
    }

    // ---- Signers ----

    /// @inheritdoc IServiceManager
    function setSigner(address signer, uint96 collateralCap, uint96 stakeCap) external {
        _signers[msg.sender] = Signer(signer, collateralCap);
        _stakes[msg.sender].cap = stakeCap;
        emit SignerSet(msg.sender, signer, collateralCap, stakeCap);
    }

    /// @inheritdoc IServiceManager
    function signerOf(address operator) external view returns (address signer, uint96 collateralCap) {
        Signer memory s = _signers[operator];
        return (s.signer, s.collateralCap);
    }

    /// @inheritdoc IServiceManager
    function stakeCapOf(address operator) external view returns (uint96) {
        return _stakes[operator].cap;
    }

    /// @inheritdoc IServiceManager
    function membershipOf(address operator) external view returns (Membership memory) {
        Signer memory s = _signers[operator];
        return Membership(s.signer, s.collateralCap, isMember(operator), stakeDelay(), otherSeats(operator));
    }

    // ---- Seats ----

    /// @inheritdoc IServiceManager
    function enlist(address operator, uint256 count) external onlyFor(operator) {
        uint256 stake = _lastingWorth(operator);
        uint256 needed = (_seats.seatsOf(operator) + count) * SEAT;
        if (stake < needed) revert SeatsNotCovered(operator, stake, needed);
        _seats.add(operator, count);
        // INVARIANT 17: the signer cannot tie up more than the owner allowed.
        uint256 cap = msg.sender == operator ? type(uint256).max : _signers[operator].collateralCap;
        ITaskMarket(market).holdSeats(operator, count, cap);
        emit SeatsSet(operator, _seats.seatsOf(operator));
    }

    /// @inheritdoc IServiceManager
    function leave(address operator) external onlyFor(operator) {
        _keepSeats(operator, 0, operator);
    }

    /// @inheritdoc IServiceManager
    function prune(address operator) external {
        (uint256 stake, uint256 needed) = _covers(operator);
        if (stake >= needed) revert SeatsCovered(operator, stake, needed);
        _keepSeats(operator, stake / SEAT, msg.sender);
    }

    /// @inheritdoc IServiceManager
    function checkSeats(address operator) external view {
        (uint256 stake, uint256 needed) = _covers(operator);
        if (stake < needed) revert SeatsNotCovered(operator, stake, needed);
    }

    /// @inheritdoc IServiceManager
    function seatCount() external view returns (uint256) {
        return _seats.count;
    }

    /// @inheritdoc IServiceManager
    function seatCountAt(uint256 blockNumber) external view returns (uint256) {
        return _seats.countAt(blockNumber);
    }

    /// @inheritdoc IServiceManager
    function seatAt(uint256 index) external view returns (address operator, uint256 since) {
        if (index >= _seats.count) revert NoSeat(index, _seats.count);
        return _seats.at(index);
    }

    /// @inheritdoc IServiceManager
    function seatsOf(address operator) external view returns (uint256) {
        return _seats.seatsOf(operator);
    }

    /// @inheritdoc IServiceManager
    function otherSeats(address operator) public view returns (uint256) {
        return _seats.living - _seats.seatsOf(operator);
    }

    // ---- Stake ----

    /// @inheritdoc IServiceManager
    function freeStake(address operator, uint256 end) external view returns (uint256) {
        if (_core().isPaused()) return 0;
        (uint256 least, uint256 rounding) = _core().until(operator, end);
        return Math.saturatingSub(least, _stakes[operator].locked + rounding);
    }

    /// @inheritdoc IServiceManager
    function lockedStake(address operator) external view returns (uint256) {
        return _stakes[operator].locked;
    }

    /// @inheritdoc IServiceManager
    function lockOf(bytes32 task, address operator) external view returns (Lock memory) {
        return _locks[task][operator];
    }

    /// @inheritdoc IServiceManager
    function lock(bytes32 task, address operator, uint256 amount, uint256 end)
        external
        onlyMarket
        returns (uint256 shares)
    {
        if (_locks[task][operator].end != 0) revert AlreadyLocked(task, operator);
        shares = strategy.underlyingToSharesView(amount) + 1;
        (uint256 least, uint256 rounding) = _core().untilOnce(operator, end);
        Stake memory stake = _stakes[operator];
        uint256 locked = stake.locked + shares + rounding;
        // INVARIANT 11: what is locked can be slashed until its end, whoever moves stake in whatever way.
        if (locked > least) {
            revert InsufficientStake(operator, Math.saturatingSub(least, stake.locked + rounding), shares);
        }
        // INVARIANT 17: the signer cannot tie up more than the owner allowed.
        if (locked > stake.cap) revert StakeCapExceeded(operator, stake.locked, shares + rounding, stake.cap);

        // SAFETY: shares and rounding are part of `locked`, which the cap holds below 2^96.
        // forge-lint: disable-next-line(unsafe-typecast)
        _locks[task][operator] = Lock(uint96(shares), uint96(rounding), end.toUint32());
        // forge-lint: disable-next-line(unsafe-typecast)
        _stakes[operator].locked = uint96(locked);
        emit Locked(task, operator, shares, end);
    }

    /// @inheritdoc IServiceManager
    function unlock(bytes32 task, address operator) external {
        // What anybody has ended after its end is no reason for the market to stop.
        bool byMarket = _isMarket();
        if (byMarket && _locks[task][operator].end == 0) return;
        uint256 end = _release(task, operator).end;
        // INVARIANT 16: after its end a lock holds nobody.
        if (!byMarket && block.number <= end) revert LockNotOver(block.number, end);
        emit Unlocked(task);
    }

    /// @inheritdoc IServiceManager
    /// @dev INVARIANT 13: each lock is released here or in `unlock`, once. INVARIANT 15: the core's reverts undo everything.
    function slash(bytes32 task, address operator, address[] calldata beneficiaries)
        external
        onlyMarket
        returns (uint256 slashId, uint256 shares)
    {
        Lock memory held = _release(task, operator);
        if (block.number > held.end) revert LockOver(block.number, held.end);
        uint256 slashable = _core().all(operator);
        Slashable.forget(operator);
        if (slashable != 0) {
            // INVARIANT 12: of what can really be slashed, the queue of withdrawals included, and rounded up.
            uint256[] memory wads = new uint256[](1);
            wads[0] = Math.min(WAD, Math.mulDiv(held.shares, WAD, slashable, Math.Rounding.Ceil));
            uint256[] memory taken;
            (slashId, taken) = allocationManager.slashOperator(
                address(this),
                SlashingParams(operator, OPERATOR_SET, Slashable.one(address(strategy)), wads, "wrong result")
            );
            shares = taken[0];
            bounty.note(slashId, task, shares, beneficiaries);
        }
        emit StakeSlashed(task, operator, slashId, shares);
    }

    // ---- The AVS ----

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
        if (_seats.seatsOf(operator) != 0) _keepSeats(operator, 0, operator);
        emit OperatorLeft(operator);
    }

    /// @inheritdoc IAVSRegistrar
    function supportsAVS(address avs) external view returns (bool) {
        return avs == address(this);
    }

    /// @inheritdoc IServiceManager
    function isMember(address operator) public view returns (bool) {
        return allocationManager.isMemberOfOperatorSet(operator, OperatorSet(address(this), OPERATOR_SET));
    }

    /// @inheritdoc IServiceManager
    function stakeDelay() public view returns (uint256) {
        return Math.min(allocationManager.DEALLOCATION_DELAY(), delegationManager.minWithdrawalDelayBlocks());
    }

    function _isMarket() private view returns (bool) {
        return msg.sender == market || msg.sender == channels;
    }

    /// @dev INVARIANT 41: what a seat holds leaves with it, to `receiver`.
    function _keepSeats(address operator, uint256 seats, address receiver) private {
        uint256 gone = _seats.seatsOf(operator) - seats;
        _seats.keep(operator, seats);
        ITaskMarket(market).releaseSeats(operator, gone, receiver);
        emit SeatsSet(operator, seats);
    }

    /// @dev What is slashable of the operator's stake for good, and what its living seats need; wei of the token.
    function _covers(address operator) private view returns (uint256 stake, uint256 needed) {
        return (_lastingWorth(operator), _seats.seatsOf(operator) * SEAT);
    }

    function _release(bytes32 task, address operator) private returns (Lock memory held) {
        held = _locks[task][operator];
        if (held.end == 0) revert NotLocked(task, operator);
        delete _locks[task][operator];
        _stakes[operator].locked -= held.shares + held.rounding;
    }

    /// @dev In wei of the token, once all deallocations that have begun are through.
    function _lastingWorth(address operator) private view returns (uint256) {
        return strategy.sharesToUnderlyingView(_core().leastUntil(operator, type(uint32).max));
    }

    function _core() private view returns (Core memory) {
        return Core(allocationManager, delegationManager, strategy, OperatorSet(address(this), OPERATOR_SET));
    }

    function _checkCallback(address avs, uint32[] calldata operatorSetIds) private view {
        if (msg.sender != address(allocationManager)) revert NotTheAllocationManager(msg.sender);
        if (avs != address(this)) revert WrongAVS(avs);
        if (operatorSetIds.length != 1 || operatorSetIds[0] != OPERATOR_SET) revert WrongOperatorSets(operatorSetIds);
    }
}
