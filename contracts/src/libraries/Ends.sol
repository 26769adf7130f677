// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Cause, ITaskMarket, Order, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Bits} from "./Bits.sol";
import {Convictions} from "./Convictions.sol";
import {Bill, Ledger, Life, Lives} from "./Lives.sol";
import {Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";

/// @title How time ends a task
library Ends {
    using Accounts for mapping(address => Account);
    using Bits for uint64;
    using Lives for Life;
    using Progresses for mapping(bytes32 => uint256);

    /// @notice See `ITaskMarket.close`; `many`: a task that cannot be closed yet, or no more, is left alone.
    function close(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IServiceManager serviceManager,
        bool many
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        State state = l.progress.state;
        if (state < State.Accepted || state > State.Revealed) {
            if (many) return;
            revert ITaskMarket.WrongState(l.uuid, State.Revealed, state);
        }
        uint256 deadline = Lives.deadline(ledger, l);
        if (many && block.number <= deadline) return;
        Lives.checkAfter(deadline);
        Bill memory b = l.bill(order);
        if (state == State.Revealed) {
            if (l.has(Lives.DEMANDED)) return Convictions.convict(ledger, l, b, Cause.Demand, 0, false);
            // INVARIANT 3: nobody is paid while a game can still end in a conviction.
            uint256 games = l.tally.games;
            if (games == 0) return _finish(ledger, l, b, serviceManager);
            if (many) return;
            revert IMarket.GamesOpen(l.uuid, games);
        }
        bool seeded = state == State.Committed && Lives.mixOf(ledger, l) != 0;
        // INVARIANT 23: drawn and not revealed is a conviction; undrawn and not revealed is not.
        if (!seeded || !Lives.isDrawn(ledger, l, order.checkRate)) return _fail(ledger, l, b, serviceManager);
        Convictions.convict(ledger, l, b, Cause.Silence, 0, false);
    }

    function _fail(Ledger storage ledger, Life memory l, Bill memory b, IServiceManager serviceManager) private {
        uint256 held = l.collateral(b);
        uint256 penalty = Terms.penalty(l.p, b.price);
        uint256 escrow = Lives.escrow(b);
        ledger.progress.setState(l.uuid, State.Failed);
        ledger.accounts.release(l.progress.executor, held, held - penalty);
        ledger.accounts.credit(b.client, escrow);
        // INVARIANT 7: the penalty is burned, so a missed commit is worth nothing to anybody.
        ledger.accounts.credit(Lives.BURN, penalty);
        emit ITaskMarket.Failed(l.uuid, escrow, penalty);
        serviceManager.unlock(l.uuid, l.progress.executor);
    }

    function _finish(Ledger storage ledger, Life memory l, Bill memory b, IServiceManager serviceManager) private {
        uint256 held = l.collateral(b);
        (uint256 won, uint256 prepaid) = Lives.gains(ledger, l, b);
        uint256 paid = b.price + won + prepaid;
        uint256 fees = Math.min(l.tally.agreed.count(), b.verifiers) * b.checkFee;
        uint256 rest = Lives.escrow(b) - b.price - fees;
        // INVARIANT 2: every way into a terminal state starts from another state, and no way leads out.
        ledger.progress.setState(l.uuid, State.Final);
        // INVARIANT 5: escrow and collateral go out to the wei; what is left of them are the fees that `settle` pays.
        ledger.accounts.release(l.progress.executor, held, held + paid);
        ledger.accounts.credit(b.client, rest);
        emit ITaskMarket.Closed(l.uuid, paid, rest);
        serviceManager.unlock(l.uuid, l.progress.executor);
    }
}
