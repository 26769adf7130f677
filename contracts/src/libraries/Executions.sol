// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IServiceManager, Membership} from "../interfaces/IServiceManager.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Admission, ITaskMarket, Opening, Order, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Answers} from "./Answers.sol";
import {Ledger, Life, Lives, Tally} from "./Lives.sol";
import {Progress, Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";
import {Views} from "./Views.sol";

/// @title What an executor sends: it accepts, commits, reveals
library Executions {
    using Accounts for mapping(address => Account);
    using Lives for Life;
    using Progresses for mapping(bytes32 => uint256);
    using SafeCast for uint256;

    /// @dev Who accepts, and what the service manager says of it: asked once for a whole batch.
    struct Acceptor {
        IServiceManager serviceManager;
        address operator;
        uint256 cap;
        uint256 delay;
    }

    /// @notice The operator, a member whose signer the caller is, while others have enough seats.
    function acceptor(Parameters memory p, IServiceManager serviceManager, address operator)
        internal
        view
        returns (Acceptor memory)
    {
        Membership memory membership = serviceManager.membershipOf(operator);
        if (msg.sender != membership.signer) revert IMarket.NotTheSigner(msg.sender, membership.signer);
        if (!membership.isMember) revert IMarket.NotAMember(operator);
        uint256 others = membership.otherSeats;
        if (others < p.otherSeats) revert IMarket.NotEnoughSeats(others, p.otherSeats);
        return Acceptor(serviceManager, operator, membership.collateralCap, membership.stakeDelay);
    }

    /// @notice See `ITaskMarket.accept`. `many`: what is not Open, or no more to be accepted, is left alone.
    function accept(
        Ledger storage ledger,
        Parameters memory p,
        Acceptor memory by,
        bytes32 uuid,
        Order calldata order,
        Admission calldata admission,
        bool many
    ) internal {
        State state = ledger.progress.stateOf(uuid);
        if (state != State.Open) {
            if (many) return;
            revert ITaskMarket.WrongState(uuid, State.Open, state);
        }
        if (many && block.number > order.acceptBy) return;
        Lives.checkUntil(order.acceptBy);
        if (order.operators != 0) Views.checkAdmission(order.operators, by.operator, admission);
        // INVARIANT 38: what the task could still do to the stake ends before the stake can leave.
        uint256 lifetime = Terms.lifetime(p, order.exec);
        if (lifetime > by.delay) revert IMarket.OutlivesStake(lifetime, by.delay);
        // INVARIANT 39: the price depends on the order and this block only, and the order is the task's name.
        uint256 price = Lives.priceAt(order, block.number);
        uint256 collateral = Terms.collateral(p, price, order.verifiers, order.checkFee);
        uint256 stake = Terms.stake(p, price, order.valueAtRisk, order.checkRate, order.verifiers);

        ledger.accounts.hold(by.operator, collateral, by.cap);
        uint32 now_ = block.number.toUint32();
        // SAFETY: `post` holds `exec` to `maxExec`, which is a uint24.
        // forge-lint: disable-next-line(unsafe-typecast)
        ledger.progress.store(uuid, Progress(by.operator, State.Accepted, now_, 0, now_, uint24(order.exec)));
        emit ITaskMarket.Accepted(uuid, by.operator, price, collateral);
        by.serviceManager.lock(uuid, by.operator, stake, block.number + lifetime);
    }

    /// @notice See `ITaskMarket.commit`; the caller is the operator's signer. `many`: what is past Accepted, or past its
    /// time, is left alone.
    function commit(Ledger storage ledger, address operator, bytes32 uuid, bytes32 commitment, bool many) internal {
        Progress memory progress = ledger.progress.load(uuid);
        uint256 last = uint256(progress.since) + progress.exec;
        if (many && (progress.state > State.Accepted || (progress.state == State.Accepted && block.number > last))) {
            return;
        }
        if (progress.state != State.Accepted) revert ITaskMarket.WrongState(uuid, State.Accepted, progress.state);
        if (progress.executor != operator) revert ITaskMarket.NotTheExecutor(operator, progress.executor);
        Lives.checkUntil(last);

        (progress.state, progress.since) = (State.Committed, block.number.toUint32());
        progress.committedAt = progress.since;
        ledger.progress.store(uuid, progress);
        ledger.claims[uuid] = commitment;
        emit ITaskMarket.Committed(uuid, commitment);
    }

    /// @notice See `ITaskMarket.reveal`, of slot zero. `many`: what comes too late, or is opened already, is left alone.
    function reveal(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IServiceManager serviceManager,
        Opening calldata o,
        bool many
    ) internal {
        Life memory l = Life(uuid, p, ledger.progress.load(uuid), Tally(0, 0, 0, 0, 0, 0));
        uint256 last = l.revealBy();
        if (many && (l.progress.state > State.Committed || block.number > last)) return;
        l.checkState(State.Committed);
        // INVARIANT 22: a drawn task's result stays hidden until no answer can copy it.
        if (Lives.isDrawn(ledger, l, order.checkRate) && block.number <= l.checkBy()) {
            Answers.checkOver(ledger, p, uuid, order, serviceManager);
        }
        Lives.checkUntil(last);
        l.checkOpening(l.progress.executor, o, ledger.claims[uuid]);

        (l.progress.state, l.progress.since) = (State.Revealed, block.number.toUint32());
        ledger.progress.store(uuid, l.progress);
        ledger.claims[uuid] = o.outputsRoot;
        emit ITaskMarket.Revealed(uuid, 0, o.outputsRoot);
    }
}
