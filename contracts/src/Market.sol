// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IDisputeGame, IDisputeMarket} from "./interfaces/IDisputeGame.sol";
import {Account, IMarket} from "./interfaces/IMarket.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";
import {Parameters} from "./interfaces/Tasks.sol";
import {Accounts} from "./libraries/Accounts.sol";
import {Lives} from "./libraries/Lives.sol";

/// @title What both markets are: accounts, parameters that never change, operators that act by their signers
/// @dev INVARIANT 42: tokens move in messages that are `nonReentrant`, and whoever they call can send none: all others
/// that change anything are `nonReentrantView`, which suffices for them as they call nobody who is not trusted.
abstract contract Market is IMarket, EIP712, ReentrancyGuardTransient {
    using Accounts for mapping(address => Account);

    /// @inheritdoc IMarket
    address public constant BURN = Lives.BURN;

    /// @inheritdoc IMarket
    IERC20 public immutable token;
    /// @inheritdoc IMarket
    IServiceManager public immutable serviceManager;
    /// @inheritdoc IMarket
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

    constructor(IServiceManager serviceManager_, IDisputeGame game_, Parameters memory p) EIP712("EigenTensor", "1") {
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
        if (address(game_.market()) != address(this)) revert NotConnected(address(game_));
    }

    // ---- Money ----

    /// @inheritdoc IMarket
    function deposit(address account, uint256 amount) external nonReentrant {
        if (account == address(0)) revert ZeroAddress();
        _accounts().deposit(token, account, amount);
    }

    /// @inheritdoc IMarket
    function withdraw(address to, uint256 amount) external nonReentrant {
        // INVARIANT 6: whoever is owed money fetches it; no message of a task waits for a transfer.
        _accounts().withdraw(token, msg.sender, to, amount);
    }

    /// @inheritdoc IMarket
    function burn() external nonReentrant {
        _accounts().withdraw(token, BURN, BURN, _accounts()[BURN].balance);
    }

    // ---- Views ----

    /// @inheritdoc IMarket
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

    /// @inheritdoc IMarket
    function accountOf(address account) external view returns (Account memory) {
        return _accounts()[account];
    }

    /// @inheritdoc IDisputeMarket
    function mayAct(address account, address sender) external view returns (bool) {
        if (sender == account) return true;
        (address signer,) = _signerOf(account);
        return sender == signer && signer != address(0);
    }

    // ---- Inside ----

    function _checkSigner(address operator) internal view returns (uint256 cap) {
        address signer;
        (signer, cap) = _signerOf(operator);
        if (msg.sender != signer) revert NotTheSigner(msg.sender, signer);
    }

    function _signerOf(address operator) internal view returns (address signer, uint256 cap) {
        (signer, cap) = serviceManager.signerOf(operator);
    }

    /// @dev Where the market stores its accounts.
    function _accounts() internal view virtual returns (mapping(address => Account) storage);
}
