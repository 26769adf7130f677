// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {
    Batch,
    BatchState,
    CallReceipt,
    Channel,
    ChannelState,
    Deal,
    Line,
    Place,
    ShareDemand,
    Sheet,
    Voucher
} from "../../src/interfaces/Deals.sol";
import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {Leaf, LeafProof, Order, Stage} from "../../src/interfaces/Tasks.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {ChannelFixture} from "../ChannelFixture.sol";

/// @title Plays operator, clients, verifiers and challengers of one pool at random
/// @dev Results are right or false by a draw. What a message would be refused for, its state or its time, is not sent.
contract ChannelHandler is ChannelFixture {
    struct Game {
        uint256 id;
        uint32 number;
        Position position;
        Order order;
    }

    struct Wanted {
        uint32 number;
        uint64 call;
        uint256 since;
    }

    Deal[] private _deals;
    Game[] private _games;
    Wanted[] private _wanted;
    mapping(bytes32 batch => mapping(uint256 index => bytes32 root)) private _answers;
    mapping(bytes32 batch => bytes32 mix) private _mixes;
    mapping(bytes32 batch => bytes32[]) private _roots;
    mapping(bytes32 batch => mapping(uint64 call => bool)) private _asked;
    uint256 private _time;

    constructor() {
        setUp();
        (offer.checkRate, offer.verifiers, offer.epoch) = (0.5e18, 2, 20);
        pool = _register(offer);
        _begin();
        for (uint256 i; i < 3; ++i) {
            _deals.push(_deal());
            _open(_deals[i], 1 ether);
        }
        _time = block.number;
    }

    /// @dev The time of the handler: each run of a message starts where the last one ended.
    modifier inTime() {
        vm.roll(_time);
        _;
        _time = block.number;
    }

    function pass(uint256 blocks) external inTime {
        vm.roll(block.number + bound(blocks, 1, 30));
    }

    function begin() external inTime {
        uint32 begun = channels.poolAt(pool).begun;
        if (channels.poolAt(pool).over || (begun > 1 && _isOpen(begun) && _isOpen(begun - 1))) return;
        _begin();
    }

    function serve(uint256 i, bool right) external inTime {
        bytes32 channel = _channel(i);
        if (leaves[channel].length >= 60) return;
        _call(channel, right ? _resultOf(uint64(leaves[channel].length)) : WRONG);
    }

    function commit(uint256 tail) external inTime {
        uint32 number = 1;
        while (number <= channels.poolAt(pool).begun && !_isOpen(number)) ++number;
        if (channels.poolAt(pool).over || number > channels.poolAt(pool).begun) return;
        Sheet[] memory all = new Sheet[](_deals.length);
        uint256 count;
        for (uint256 i; i < _deals.length; ++i) {
            Channel memory c = channels.channelAt(_channel(i));
            bool open = c.state == ChannelState.Open || (c.state == ChannelState.Left && number <= c.last);
            uint256 fresh = leaves[_channel(i)].length - c.count;
            if (open && fresh != 0) all[count++] = _sheet(_deals[i], bound(tail, 0, fresh < 8 ? fresh : 8));
        }
        Sheet[] memory sheets = new Sheet[](count);
        for (uint256 i; i < count; ++i) {
            sheets[i] = all[i];
        }
        _commit(number, sheets);
    }

    function seed(uint256 i) external inTime {
        (, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state != BatchState.Committed || b.leaves == 0 || _mixes[batch] != 0) return;
        uint256 seedBlock = channels.seedBlockOf(batch);
        if (market.seedOf(seedBlock) == 0) {
            if (block.number > seedBlock + p.record) return;
            _seedBatch(batch);
        }
        _mixes[batch] = market.seedOf(seedBlock);
        _roots[batch] = _shareRoots(batch, _mixes[batch]);
    }

    function answer(uint256 i, uint256 index, bool right) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state != BatchState.Committed || _mixes[batch] == 0) return;
        (, uint256 checkBy,,,) = channels.windowsOf(offer, number);
        index = bound(index, 0, 16 * _roots[batch].length - 1);
        (address who, uint256 since) = manager.seatAt(Terms.seatOf(_mixes[batch], batch, index, b.seats));
        if (block.number > checkBy || who == operator || since >= b.committedAt || _hasAnswered(batch, who)) return;
        _answers[batch][index] = right ? _roots[batch][index / 16] : WRONG;
        bytes32 hidden = keccak256(
            abi.encode(block.chainid, address(channels), batch, who, index + 1, _answers[batch][index], SALT)
        );
        vm.prank(_signerOf(who));
        channels.answer(who, offer, number, index, hidden);
    }

    function revealRoots(uint256 i, bool right) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state != BatchState.Committed || _mixes[batch] == 0 || b.revealedAt != 0) return;
        (, uint256 checkBy, uint256 revealBy,,) = channels.windowsOf(offer, number);
        if (block.number <= checkBy || block.number > revealBy) return;
        if (!right) _roots[batch][0] = keccak256("false root");
        vm.prank(signer);
        channels.revealRoots(offer, number, _roots[batch]);
    }

    function reveal(uint256 i, uint256 index) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        index = bound(index, 0, 31);
        if (b.state != BatchState.Committed || channels.answerAt(batch, index).stage != Stage.Hidden) return;
        (,, uint256 revealBy, uint256 answersBy,) = channels.windowsOf(offer, number);
        if (block.number > answersBy || (b.revealedAt == 0 && block.number <= revealBy)) return;
        bytes32[] memory roots = b.revealedAt == 0 ? new bytes32[](0) : _roots[batch];
        _openAnswer(batch, number, roots, index, _answers[batch][index]);
    }

    /// @dev Or denounces the share: also where its root is false.
    function justify(uint256 i, uint256 share) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        share = bound(share, 0, 1);
        ShareDemand memory d = channels.shareDemandAt(batch, share);
        if (b.state != BatchState.Committed || d.since == 0 || d.justifiedAt != 0) return;
        if (block.number > d.since + offer.exec + p.clock) return channels.denounceShare(offer, number, share);
        if (_roots[batch][share] != _shareRoot(batch, _mixes[batch], share)) return;
        channels.justify(offer, number, _roots[batch], _part(batch, _mixes[batch], share, 0));
    }

    function challenge(uint256 i, uint256 call) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state != BatchState.Committed || b.leaves == 0) return;
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, number);
        if (block.number > disputeBy) return;
        Place memory place = _placeOf(batch, uint64(bound(call, 0, b.leaves - 1)));
        vm.prank(rival);
        uint256 id = channels.challenge(rival, offer, number, place, 0);
        Game storage game_ = _games.push();
        (game_.id, game_.number, game_.position) = (id, number, _position(place, rival));
        game_.order = place.order;
    }

    /// @dev The clock of one side runs out: the operator's where the result is false, or where nobody looked for so long.
    function endGame(uint256 i) external inTime {
        if (_games.length == 0) return;
        i = bound(i, 0, _games.length - 1);
        Game memory g = _games[i];
        _games[i] = _games[_games.length - 1];
        _games.pop();
        bytes32 outputsRoot = channels.outputsRootOf(g.position.task);
        uint256 over = g.position.since + g.position.executorLeft;
        if (outputsRoot != WRONG && block.number < over) {
            bytes32[] memory trace = new bytes32[](2);
            (trace[0], trace[1]) = (keccak256("tensor root"), outputsRoot);
            vm.prank(signer);
            channelsGame.publish(g.id, g.position.pack(), g.order, HEADER, RECORDS, trace, new bytes32[](0));
            g.position = _publishedBy(g.position, g.order, trace);
            over = g.position.since + g.position.challengerLeft;
        }
        if (block.number < over) vm.roll(over);
        channelsGame.timeout(g.id, g.position.pack());
    }

    function demand(uint256 i, uint64 call) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state != BatchState.Committed || b.leaves == 0 || b.shownUntil != 0) return;
        (,,,, uint256 disputeBy) = channels.windowsOf(offer, number);
        call = uint64(bound(call, 0, b.leaves - 1));
        if (block.number > disputeBy || _asked[batch][call]) return;
        _asked[batch][call] = true;
        _wanted.push(Wanted(number, call, block.number));
        vm.prank(rival);
        channels.demand(offer, number, call, new Leaf[](0));
    }

    function show(uint256 i) external inTime {
        if (_wanted.length == 0) return;
        i = bound(i, 0, _wanted.length - 1);
        Wanted memory w = _wanted[i];
        bytes32 batch = channels.batchOf(pool, w.number);
        bool late = block.number > w.since + offer.exec + p.clock;
        if (late || channels.batchAt(batch).state == BatchState.Convicted) {
            channels.denounce(offer, w.number, w.call, new Leaf[](0));
        } else {
            channels.show(offer, w.number, _placeOf(batch, w.call), "", new Leaf[](0), new LeafProof[](0));
        }
        _wanted[i] = _wanted[_wanted.length - 1];
        _wanted.pop();
    }

    /// @dev For a call that was served and is not committed, by a receipt that names this batch.
    function accuse(uint256 i, uint256 c) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        bytes32 channel = _channel(c);
        uint32 count = channels.channelAt(channel).count;
        if (b.state != BatchState.Committed || leaves[channel].length <= count || i % 16 != 0) return;
        if (channels.channelAt(channel).state == ChannelState.Concluded) return;
        CallReceipt memory receipt = _receipt(channel, count, number);
        channels.accuse(offer, _deals[bound(c, 0, _deals.length - 1)], receipt, _sign(receipt));
        _assertBatch(batch, BatchState.Convicted);
    }

    function close(uint256 i) external inTime {
        (uint32 number,, Batch memory b) = _batch(i);
        if (!_isEnding(number, b)) return;
        _closeBatch(number);
    }

    function settle(uint256 i, uint256 index) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        index = bound(index, 0, 31);
        Stage stage = channels.answerAt(batch, index).stage;
        bool over = b.state == BatchState.Final || b.state == BatchState.Convicted;
        if (!over || (stage != Stage.Hidden && stage != Stage.Agreed && stage != Stage.Differed)) return;
        _settle(number, index);
    }

    function refund(uint256 i, uint32 position) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state < BatchState.Final || b.lines == 0) return;
        position = uint32(bound(position, 0, b.lines - 1));
        if (refunded[batch][position]) return;
        refunded[batch][position] = true;
        channels.refund(offer, number, _proofs(batch, position));
    }

    function refundBond(uint256 i) external inTime {
        if (_games.length == 0) return;
        i = bound(i, 0, _games.length - 1);
        Game memory g = _games[i];
        if (channels.batchAt(channels.batchOf(pool, g.number)).state != BatchState.Convicted) return;
        if (channels.challengeAt(g.position.task, g.id).ended) return;
        channels.refundBond(offer, g.number, g.position.task, g.id);
    }

    function slash(uint256 i) external inTime {
        (uint32 number, bytes32 batch, Batch memory b) = _batch(i);
        if (b.state != BatchState.Convicted || channels.judgmentAt(batch).slashed) return;
        channels.slash(offer, number);
    }

    function leave(uint256 i) external inTime {
        i = bound(i, 0, 3 * _deals.length);
        if (i >= _deals.length || channels.channelAt(_channel(i)).state != ChannelState.Open) return;
        vm.prank(client);
        channels.leave(offer, _deals[i]);
    }

    function end(uint256 i) external inTime {
        Channel memory c = channels.channelAt(_channel(i));
        bool over = channels.poolAt(pool).over && c.state == ChannelState.Open;
        if (c.state != ChannelState.Left && !over) return;
        Batch memory b = channels.batchAt(channels.batchOf(pool, c.last));
        bool waits = b.state == BatchState.Begun && block.number <= b.begunAt + offer.epoch + p.challenge;
        if (!channels.poolAt(pool).over && waits) return;
        channels.end(offer, _deals[bound(i, 0, _deals.length - 1)]);
    }

    function conclude(uint256 i, uint256 amount) external inTime {
        i = bound(i, 0, 6 * _deals.length);
        if (i >= _deals.length) return;
        Channel memory c = channels.channelAt(_channel(i));
        if (c.state != ChannelState.Open) return;
        Voucher memory v = Voucher(_channel(i), c.count, bound(amount, c.paid, c.paid + c.deposit), 0, 0);
        bytes32 digest = channels.hashOf(v);
        channels.conclude(offer, _deals[i], v, _sign(payerKey, digest), _sign(receiptKey, digest));
    }

    // ---- What the invariants ask ----

    mapping(bytes32 batch => mapping(uint32 position => bool)) public refunded;

    /// @dev What the contract owes to somebody, as the protocol says.
    function owed() external view returns (uint256 sum) {
        address[5] memory all = [operator, rival, verifier, client, channels.BURN()];
        for (uint256 i; i < all.length; ++i) {
            sum += _funds(all[i]) + _heldOf(all[i]);
        }
        for (uint256 i; i < _deals.length; ++i) {
            sum += channels.channelAt(_channel(i)).deposit;
        }
        for (uint32 n = 1; n <= channels.poolAt(pool).begun; ++n) {
            sum += _pot(channels.batchOf(pool, n));
        }
        sum += _wanted.length * p.gChunk;
    }

    function held() external view returns (uint256) {
        return token.balanceOf(address(channels)) - _funds(anybody) - _funds(address(this));
    }

    /// @dev Ends everything that time ends, by anybody.
    function finish() external inTime {
        for (uint256 round; round < 3; ++round) {
            vm.roll(block.number + 600);
            while (_games.length != 0) {
                Game memory g = _games[_games.length - 1];
                _games.pop();
                channelsGame.timeout(g.id, g.position.pack());
            }
            for (uint32 n = 1; n <= channels.poolAt(pool).begun; ++n) {
                bytes32 batch = channels.batchOf(pool, n);
                for (uint256 g; g < 2; ++g) {
                    ShareDemand memory d = channels.shareDemandAt(batch, g);
                    bool open = d.since != 0 && d.justifiedAt == 0;
                    if (open && channels.batchAt(batch).state == BatchState.Committed) {
                        channels.denounceShare(offer, n, g);
                    }
                }
            }
            while (_wanted.length != 0) {
                Wanted memory w = _wanted[_wanted.length - 1];
                _wanted.pop();
                channels.denounce(offer, w.number, w.call, new Leaf[](0));
            }
            for (uint32 n = 1; n <= channels.poolAt(pool).begun; ++n) {
                if (_isEnding(n, channels.batchAt(channels.batchOf(pool, n)))) _closeBatch(n);
            }
        }
    }

    function stateOf(uint32 number) external view returns (BatchState) {
        return channels.batchAt(channels.batchOf(pool, number)).state;
    }

    function isOver() external view returns (bool) {
        for (uint32 n = 1; n <= channels.poolAt(pool).begun; ++n) {
            if (channels.batchAt(channels.batchOf(pool, n)).state < BatchState.Final) return false;
        }
        return true;
    }

    // ---- Inside ----

    function _pot(bytes32 batch) private view returns (uint256 sum) {
        Batch memory b = channels.batchAt(batch);
        if (b.state == BatchState.Committed) return b.amount + b.won * _reward();
        sum = channels.paybackAt(batch).left;
        if (b.state != BatchState.Final || b.leaves == 0) return sum;
        uint256 count = b.leaves < offer.verifiers ? b.leaves : offer.verifiers;
        for (uint256 g; g < count; ++g) {
            uint256 lowest = b.agreed >> 8 * g & 0xff;
            if (lowest == 0) continue;
            if (channels.answerAt(batch, 16 * g + lowest - 1).stage == Stage.Agreed) sum += _fee(b);
        }
    }

    function _fee(Batch memory b) private view returns (uint256) {
        uint256 k = (uint256(b.leaves) * offer.checkRate + 1e18 - 1) / 1e18;
        if (k < offer.verifiers) k = b.leaves < offer.verifiers ? b.leaves : offer.verifiers;
        uint256 count = b.leaves < offer.verifiers ? b.leaves : offer.verifiers;
        return p.gChk + p.phi * offer.checkPrice * (k / count) / 1e18;
    }

    /// @dev Begun, and its time to be committed is not over.
    function _isOpen(uint32 number) private view returns (bool) {
        Batch memory b = channels.batchAt(channels.batchOf(pool, number));
        return b.state == BatchState.Begun && block.number <= b.begunAt + offer.epoch;
    }

    function _isEnding(uint32 number, Batch memory b) private view returns (bool) {
        (uint256 commitBy,,,, uint256 disputeBy) = channels.windowsOf(offer, number);
        if (b.state == BatchState.Begun) return block.number > commitBy + p.challenge;
        if (b.state != BatchState.Committed || b.games != 0 || b.demands != 0) return false;
        if (b.leaves == 0) return block.number > b.committedAt + p.challenge;
        uint256 seedBlock = channels.seedBlockOf(channels.batchOf(pool, number));
        if (market.seedOf(seedBlock) == 0) return block.number > seedBlock + p.record;
        return block.number > disputeBy;
    }

    function _hasAnswered(bytes32 batch, address who) private view returns (bool) {
        for (uint256 i; i < 32; ++i) {
            if (channels.answerAt(batch, i).operator == who) return true;
        }
        return false;
    }

    function _batch(uint256 i) private view returns (uint32 number, bytes32 batch, Batch memory b) {
        number = uint32(bound(i, 1, channels.poolAt(pool).begun));
        batch = channels.batchOf(pool, number);
        b = channels.batchAt(batch);
    }

    function _channel(uint256 i) private view returns (bytes32) {
        return channels.channelOf(_deals[bound(i, 0, _deals.length - 1)]);
    }

    function _placeOf(bytes32 batch, uint64 call) private view returns (Place memory) {
        (uint32 position, uint64 index) = _find(batch, call);
        return _place(batch, position, index);
    }
}
