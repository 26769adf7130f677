// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IDisputeGame, IDisputeMarket} from "../interfaces/IDisputeGame.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Account, ITaskMarket, Order, Parameters} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "../libraries/Accounts.sol";
import {Limits} from "../libraries/Limits.sol";
import {Book, Life, Lives} from "../libraries/Lives.sol";
import {Terms} from "../libraries/Terms.sol";

/// @title What the market is made with, and its tokens
/// @dev INVARIANT 42: tokens move in messages that are `nonReentrant`, and whoever they call can send none: all others
/// that change anything are `nonReentrantView`, which suffices for them as they call nobody who is not trusted.
abstract contract Ledger is ITaskMarket, EIP712, ReentrancyGuardTransient {
    using Accounts for mapping(address => Account);
    using SafeERC20 for IERC20;

    bytes32 private constant ORDER_TYPEHASH = keccak256(
        "Order(address client,uint256 nonce,uint16 semantics,bytes32 program,bytes32 inputs,bytes32 weights,"
        "bytes32 states,bytes32 variables,uint32 repeat,uint256 minPrice,uint256 maxPrice,uint64 rampStart,"
        "uint64 rampLength,uint256 checkFee,uint64 checkRate,uint8 verifiers,uint256 valueAtRisk,uint32 exec,"
        "uint64 acceptBy,bytes32 operators)"
    );
    uint256 private constant ORDER_SIZE = 20 * 32;

    address public constant BURN = Lives.BURN;

    IERC20 public immutable token;
    IServiceManager public immutable serviceManager;
    IDisputeGame public immutable game;

    uint24 private immutable MAX_EXEC;
    uint32 private immutable LAG;
    uint32 private immutable GRID;
    uint32 private immutable RECORD;
    uint32 private immutable CHECK;
    uint32 private immutable REVEAL;
    uint32 private immutable CHALLENGE;
    uint32 private immutable CLOCK;
    uint32 private immutable MARGIN;
    uint64 private immutable ETA;
    uint96 private immutable G_DEF;
    uint96 private immutable G_MISS;
    uint64 private immutable CHECK_FLOOR;
    uint64 private immutable PHI;
    uint64 private immutable SYBILS;
    uint64 private immutable STAKE_MARGIN;
    uint96 private immutable MIN_STAKE;
    uint96 private immutable G_CHK;
    uint96 private immutable G_CHUNK;
    uint32 private immutable OTHER_SEATS;
    uint32 private immutable CONFIRMATIONS;

    Book internal _book;

    constructor(IServiceManager serviceManager_, IDisputeGame game_, Parameters memory p) {
        Limits.check(p, serviceManager_.stakeDelay());
        serviceManager = serviceManager_;
        game = game_;
        token = serviceManager_.strategy().underlyingToken();
        MAX_EXEC = p.maxExec;
        LAG = p.lag;
        GRID = p.grid;
        RECORD = p.record;
        CHECK = p.check;
        REVEAL = p.reveal;
        CHALLENGE = p.challenge;
        CLOCK = p.clock;
        MARGIN = p.margin;
        ETA = p.eta;
        G_DEF = p.gDef;
        G_MISS = p.gMiss;
        CHECK_FLOOR = p.checkFloor;
        PHI = p.phi;
        SYBILS = p.sybils;
        STAKE_MARGIN = p.stakeMargin;
        MIN_STAKE = p.minStake;
        G_CHK = p.gChk;
        G_CHUNK = p.gChunk;
        OTHER_SEATS = p.otherSeats;
        CONFIRMATIONS = p.confirmations;
    }

    /// @inheritdoc IDisputeMarket
    function parameters() public view returns (Parameters memory) {
        return Parameters({
            maxExec: MAX_EXEC,
            lag: LAG,
            grid: GRID,
            record: RECORD,
            check: CHECK,
            reveal: REVEAL,
            challenge: CHALLENGE,
            clock: CLOCK,
            margin: MARGIN,
            eta: ETA,
            gDef: G_DEF,
            gMiss: G_MISS,
            checkFloor: CHECK_FLOOR,
            phi: PHI,
            sybils: SYBILS,
            stakeMargin: STAKE_MARGIN,
            minStake: MIN_STAKE,
            gChk: G_CHK,
            gChunk: G_CHUNK,
            otherSeats: OTHER_SEATS,
            confirmations: CONFIRMATIONS
        });
    }

    /// @inheritdoc IDisputeMarket
    function taskOf(Order calldata order) public view returns (bytes32) {
        bytes32 typehash = ORDER_TYPEHASH;
        bytes32 structHash;
        // SAFETY: scratches beyond the free memory pointer only. Words that are no valid fields hash to a name that
        // nobody can post: `post` decodes the whole order.
        assembly ("memory-safe") {
            let preimage := mload(0x40)
            mstore(preimage, typehash)
            calldatacopy(add(preimage, 0x20), order, ORDER_SIZE)
            structHash := keccak256(preimage, add(ORDER_SIZE, 0x20))
        }
        return _hashTypedDataV4(structHash);
    }

    // ---- One task ----

    function _life(bytes32 uuid) internal view returns (Life memory) {
        return Lives.load(_book, parameters(), uuid);
    }

    function _checkSigner(address operator) internal view returns (uint256 cap) {
        address signer;
        (signer, cap) = _signerOf(operator);
        if (msg.sender != signer) revert NotTheSigner(msg.sender, signer);
    }

    function _signerOf(address operator) internal view returns (address signer, uint256 cap) {
        (signer, cap,) = serviceManager.signerOf(operator);
    }

    // ---- Seats ----

    /// @inheritdoc ITaskMarket
    function holdSeats(address operator, uint256 count, uint256 cap) external nonReentrantView {
        _book.accounts.hold(operator, _depositOf(count), cap);
    }

    /// @inheritdoc ITaskMarket
    function releaseSeats(address operator, uint256 count, address receiver) external nonReentrantView {
        uint256 amount = _depositOf(count);
        _book.accounts.release(operator, amount, 0);
        _book.accounts.credit(receiver, amount);
    }

    /// @dev Only the service manager asks.
    function _depositOf(uint256 seats) private view returns (uint256) {
        if (msg.sender != address(serviceManager)) revert NotTheServiceManager(msg.sender);
        return Terms.seatDeposit(parameters()) * seats;
    }

    // ---- Tokens ----

    function _deposit(address account, uint256 amount) internal {
        _book.accounts.credit(account, amount);
        emit Deposited(account, msg.sender, amount);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }

    /// @dev Takes what the balance lacks of `needed` from the caller's tokens.
    function _top(address account, uint256 needed) internal {
        uint256 balance = _book.accounts[account].balance;
        if (balance < needed) _deposit(account, needed - balance);
    }

    function _withdraw(address account, address to, uint256 amount) internal {
        _book.accounts.debit(account, amount);
        emit Withdrawn(account, to, amount);
        token.safeTransfer(to, amount);
    }
}
