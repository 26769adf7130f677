// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Vm} from "forge-std/Vm.sol";
import {DisputeGame} from "../../src/DisputeGame.sol";
import {Descent, Entry, IDisputeGame, IDisputeMarket, Phase, Position} from "../../src/interfaces/IDisputeGame.sol";
import {IReferee} from "../../src/interfaces/IReferee.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Positions} from "../../src/libraries/Positions.sol";

/// @title What a move of the deployed game makes of a position, whatever the position
/// @notice The check is the market and both players. A position is put into the game's storage as the game would have
/// put it, and what is there after the move is compared with the position that the rules give.
contract GameSymbolic {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint256 private constant ID = 7;
    uint64 private constant FLOAT32 = uint64(DTypes.FLOAT32);

    DisputeGame private game;
    bool private ended;
    bool private executorLost;

    function setUp() public {
        game = new DisputeGame(IDisputeMarket(address(this)), IReferee(address(this)));
    }

    /// @dev The market's part.
    function onGameEnded(bytes32, uint256, address, bool lost, bool) external {
        (ended, executorLost) = (true, lost);
    }

    // ---- Clocks ----

    /// @dev At every block either the side to move can, and what it took is gone from its clock alone; or anybody can end
    /// the game against it.
    function check_TheMoverMovesOrLosesByItsClock(
        uint8 phase,
        uint32 since,
        uint32 left,
        uint32 other,
        uint32 blockNumber
    ) public {
        if (blockNumber < since) return;
        vm.roll(blockNumber);
        bool isLate = blockNumber - since >= left;
        Position memory p = _position(since);
        if (phase == uint8(Phase.Span)) {
            (p.phase, p.challengerLeft, p.executorLeft) = (Phase.Span, left, other);
        } else if (phase == uint8(Phase.Borders)) {
            (p.phase, p.executorLeft, p.challengerLeft) = (Phase.Borders, left, other);
        } else {
            return;
        }
        (p.high, p.reductions) = (2, FLOAT32);
        bytes memory values = new bytes(4);
        p.borders = keccak256(values);
        _place(p);
        bytes memory move = p.phase == Phase.Span
            ? abi.encodeCall(game.pickSpan, (ID, p.pack(), 1, values))
            : abi.encodeCall(game.claimBorders, (ID, p.pack(), values));
        (bool moved,) = address(game).call(move);
        assert(moved == !isLate);
        if (moved) {
            p.since = blockNumber;
            if (p.phase == Phase.Span) {
                (p.phase, p.challengerLeft, p.low) = (Phase.Verdict, left - (blockNumber - since), 1);
            } else {
                (p.phase, p.executorLeft) = (Phase.Span, left - (blockNumber - since));
            }
            _isAt(p);
        } else {
            (bool over,) = address(game).call(abi.encodeCall(game.timeout, (ID, p.pack())));
            assert(over && ended && executorLost == (p.phase == Phase.Borders) && game.positionOf(ID) == 0);
        }
    }

    /// @dev While the side to move has time, nobody ends the game.
    function check_NobodyEndsAGameInTime(uint8 phase, uint32 since, uint32 left, uint32 blockNumber) public {
        if (blockNumber < since || blockNumber - since >= left || phase > uint8(Phase.Verdict)) return;
        vm.roll(blockNumber);
        Position memory p = _position(since);
        p.phase = Phase(phase);
        bool isExecutors = p.phase == Phase.Publish || p.phase == Phase.Trace || p.phase == Phase.Tree
            || p.phase == Phase.Leaf || p.phase == Phase.Borders;
        if (isExecutors) p.executorLeft = left;
        else p.challengerLeft = left;
        _place(p);
        (bool over,) = address(game).call(abi.encodeCall(game.timeout, (ID, p.pack())));
        assert(!over && !ended);
    }

    // ---- Positions ----

    /// @dev INVARIANT 31, with every bit of the words.
    function check_OnlyTheGamesOwnPositionIsPlayed(bytes32[10] memory words, bytes32[10] memory other, uint256 id)
        public
    {
        _placeWords(words);
        uint256 different = id ^ ID;
        for (uint256 i; i < 10; ++i) {
            different |= uint256(words[i] ^ other[i]);
        }
        if (different == 0) return;
        (bool over,) = address(game).call(abi.encodeCall(game.timeout, (id, other)));
        assert(!over);
    }

    /// @dev INVARIANT 31: what words say is the position that they were packed from, so no two have the same words.
    function check_APositionIsWhatItsWordsSay(Position memory p) public pure {
        bytes32[10] memory words = p.pack();
        assert(uint256(words[2]) & 0xFFFF == 0);
        Position memory said = Positions.unpack(words);
        for (uint256 i; i < 26; ++i) {
            (bytes32 field, bytes32 saidField) = (_field(p, i), _field(said, i));
            assert(saidField == field);
        }
    }

    /// @dev INVARIANT 31: no two words say the same position, if nothing stands where no field is.
    function check_WordsAreWhatTheirPositionIsPackedInto(bytes32[10] memory words) public pure {
        uint256 word = uint256(words[2]);
        // a phase and a truth value that there are
        if (word >> 56 & 0xFF > uint256(type(Phase).max) || word >> 48 & 0xFF > 1) return;
        bytes32[10] memory packed = Positions.unpack(words).pack();
        for (uint256 i; i < 10; ++i) {
            assert(packed[i] == (i == 2 ? bytes32(word >> 16 << 16) : words[i]));
        }
    }

    // ---- Borders ----

    /// @dev INVARIANT 30: a border is no pattern that no value has.
    function check_ClaimBorders_OfCanonicalPatterns(bytes4 first, bytes4 second) public {
        Position memory p = _position(1);
        (p.phase, p.reductions, p.high) = (Phase.Borders, FLOAT32, 3);
        _place(p);
        bytes memory values = abi.encodePacked(first, second);
        (bool claimed,) = address(game).call(abi.encodeCall(game.claimBorders, (ID, p.pack(), values)));
        assert(claimed == (_isCanonical(first) && _isCanonical(second)));
    }

    // ---- Trees ----

    /// @dev A child is picked that stands under the node, at least as deep as the executor opened it and no deeper than leaves
    /// are, at an index that the node's is the beginning of, and with an element under it.
    function check_PickNode(
        uint8 level,
        uint8 opened,
        uint8 at,
        uint8 index,
        uint8 length,
        uint64 elements,
        bytes32 child,
        bytes32[2] memory siblings
    ) public {
        if (level > 54 || elements > 2 ** 62) return;
        for (uint64 i; i < 8; ++i) {
            if (index != i) continue;
            for (uint256 n; n <= siblings.length; ++n) {
                if (length == n) {
                    _checkPick(level, opened, at, Descent(i, child, _first(siblings, n)), elements, false);
                }
            }
        }
    }

    /// @dev Of the trace as of a tensor, but its leaves are calls.
    function check_PickNode_OfTheTrace(
        uint8 level,
        uint8 opened,
        uint8 at,
        uint8 index,
        uint8 length,
        uint64 leaves,
        bytes32 child,
        bytes32[2] memory siblings
    ) public {
        if (level == 0 || level > 54) return;
        for (uint64 i; i < 8; ++i) {
            if (index != i) continue;
            for (uint256 n; n <= siblings.length; ++n) {
                if (length == n) _checkPick(level, opened, at, Descent(i, child, _first(siblings, n)), leaves, true);
            }
        }
    }

    /// @dev Whatever the node is: a child that leads to another hash is not picked.
    function check_PickNode_OfAnotherHash(bytes32 node, bytes32 child, bytes32 sibling, bool rooted, uint32 elements)
        public
    {
        Position memory p = _position(1);
        (p.phase, p.node, p.level, p.rooted) = (Phase.Node, node, 3, rooted);
        (p.dtype, p.elements) = (uint8(DTypes.FLOAT32), uint64(elements) + 1);
        _place(p);
        bytes32[] memory path = new bytes32[](1);
        path[0] = sibling;
        (bool picked,) = address(game).call(abi.encodeCall(game.pickNode, (ID, p.pack(), Descent(0, child, path))));
        bytes32 tree = sha256(abi.encodePacked(uint8(1), child, sibling));
        if (rooted) tree = sha256(abi.encodePacked(uint8(2), p.dtype, p.elements, tree));
        assert(picked == (node == tree));
    }

    /// @dev So many children as have an element under them, which with padding after them fold to the node; nothing else.
    function check_Descend(uint8 level, uint8 at, uint64 elements, uint8 levels, uint8 count, bytes32[4] memory nodes)
        public
    {
        if (level > 2 || elements == 0 || elements > 2 ** 62) return;
        uint256 leaves = (uint256(elements) + 255) / 256;
        // the position is one that there can be
        if (uint256(at) << level >= leaves) return;
        for (uint8 k; k <= 3; ++k) {
            if (levels != k) continue;
            for (uint256 n; n <= nodes.length; ++n) {
                if (count == n) _checkDescend(level, at, elements, k, nodes, n);
            }
        }
    }

    function _checkPick(uint8 level, uint8 opened, uint64 at, Descent memory way, uint64 leaves, bool inTrace) private {
        uint256 n = way.path.length;
        bytes32 node = way.child;
        for (uint256 k; k < n; ++k) {
            (bytes32 left, bytes32 right) = way.index >> k & 1 == 0 ? (node, way.path[k]) : (way.path[k], node);
            node = sha256(abi.encodePacked(uint8(1), left, right));
        }
        Position memory p = _position(1);
        (p.phase, p.node, p.level, p.opened, p.index) = (Phase.Node, node, level, opened, at);
        (p.dtype, p.elements) = (uint8(DTypes.FLOAT32), leaves);
        if (inTrace) (p.phase, p.dtype) = (Phase.Call, 0);
        _place(p);
        (bool picked,) = address(game).call(abi.encodeCall(game.pickNode, (ID, p.pack(), way)));
        bool stands = n >= opened && (inTrace ? n < level : n <= level) && way.index >> n == at;
        // 256 numbers of four bytes in a leaf
        uint256 first = stands ? uint256(way.index) << level - n : 0;
        assert(picked == (stands && (inTrace ? first : 256 * first) < leaves));
        if (!picked) return;
        (p.node, p.index, p.opened, p.level) = (way.child, way.index, 0, level - uint8(n));
        p.phase = inTrace ? Phase.Trace : p.level == 0 ? Phase.Leaf : Phase.Tree;
        _isAt(p);
    }

    function _checkDescend(uint8 level, uint64 at, uint64 elements, uint8 levels, bytes32[4] memory nodes, uint256 n)
        private
    {
        bytes32[4] memory folded;
        bytes32[] memory children = new bytes32[](n);
        for (uint256 i; i < n; ++i) {
            (children[i], folded[i]) = (nodes[i], nodes[i]);
        }
        for (uint256 width = 2 ** level; width > 1; width /= 2) {
            for (uint256 i; i < width / 2; ++i) {
                folded[i] = sha256(abi.encodePacked(uint8(1), folded[2 * i], folded[2 * i + 1]));
            }
        }
        Position memory p = _position(1);
        (p.phase, p.node, p.level, p.index) = (Phase.Tree, folded[0], level, at);
        (p.dtype, p.elements) = (uint8(DTypes.FLOAT32), elements);
        _place(p);
        (bool opened,) = address(game).call(abi.encodeCall(game.descend, (ID, p.pack(), levels, children)));
        // of fewer than five levels all are opened; child i begins with element 256·(at·2^level + i)
        bool fits = levels == level && n != 0 && n <= 2 ** level;
        if (fits && 256 * (uint256(at) * 2 ** level + n - 1) >= elements) fits = false;
        if (fits && n < 2 ** level && 256 * (uint256(at) * 2 ** level + n) < elements) fits = false;
        assert(opened == fits);
        if (!opened) return;
        (p.opened, p.phase) = (levels, Phase.Node);
        _isAt(p);
    }

    // ---- Inside ----

    /// @dev A game in which both players have all the time.
    function _position(uint32 since) private view returns (Position memory p) {
        (p.executor, p.challenger, p.since) = (address(this), address(this), since);
        p.executorLeft = p.challengerLeft = type(uint32).max;
    }

    function _place(Position memory p) private {
        _placeWords(p.pack());
    }

    /// @dev `positionOf` is the game's first variable.
    function _placeWords(bytes32[10] memory words) private {
        vm.store(address(game), keccak256(abi.encode(ID, uint256(0))), keccak256(abi.encode(ID, words)));
    }

    function _field(Position memory p, uint256 at) private pure returns (bytes32 field) {
        assembly ("memory-safe") {
            field := mload(add(p, shl(5, at)))
        }
    }

    function _isAt(Position memory p) private view {
        assert(game.positionOf(ID) == keccak256(abi.encode(ID, p.pack())));
    }

    function _isCanonical(bytes4 stored) private pure returns (bool) {
        // little-endian: the sign and seven bits of the exponent come last
        bool isOnes = stored[3] & 0x7F == 0x7F && stored[2] & 0x80 == 0x80;
        return !isOnes || stored & 0xFFFF7F00 == 0 || stored == 0x0000C07F;
    }

    function _first(bytes32[2] memory siblings, uint256 n) private pure returns (bytes32[] memory path) {
        path = new bytes32[](n);
        for (uint256 i; i < n; ++i) {
            path[i] = siblings[i];
        }
    }
}
