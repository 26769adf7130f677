// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IDisputeGame} from "../interfaces/IDisputeGame.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Account, Cause, ITaskMarket, Order, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Bits} from "./Bits.sol";
import {Convictions} from "./Convictions.sol";
import {Bill, Book, Life, Lives} from "./Lives.sol";
import {Terms} from "./Terms.sol";

/// @title How time ends a task
library Ends {
    using Accounts for mapping(address => Account);
    using Bits for uint64;
    using Lives for Life;

    /// @notice See `ITaskMarket.close`; `many`: a task that cannot be closed yet, or no more, is left alone.
    function close(
        Book storage book,
        Life memory l,
        Order calldata order,
        IDisputeGame game,
        IServiceManager serviceManager,
        bool many
    ) external {
        State state = l.step.state;
        if (state < State.Accepted || state > State.Revealed) {
            if (many) return;
            revert ITaskMarket.WrongState(l.uuid, State.Revealed, state);
        }
        uint256 deadline = Lives.deadline(book, l);
        if (many && block.number <= deadline) return;
        Lives.checkAfter(deadline);
        Bill memory b = l.bill(order);
        if (state == State.Revealed) {
            if (l.has(Lives.DEMANDED)) return Convictions.convict(book, l, b, Cause.Demand, address(0), false);
            // INVARIANT 3: nobody is paid while a game can still end in a conviction.
            uint256 games = game.openGames(l.uuid);
            if (games == 0) return _finish(book, l, b, serviceManager);
            if (many) return;
            revert ITaskMarket.GamesOpen(l.uuid, games);
        }
        bool seeded = state == State.Committed && Lives.mixOf(book, l) != 0;
        // INVARIANT 23: drawn and not revealed is a conviction; undrawn and not revealed is not.
        if (!seeded || !Lives.isDrawn(book, l, order.checkRate)) return _fail(book, l, b, serviceManager);
        Convictions.convict(book, l, b, Cause.Silence, address(0), false);
    }

    function _fail(Book storage book, Life memory l, Bill memory b, IServiceManager serviceManager) private {
        uint256 held = l.collateral(b);
        uint256 penalty = Terms.penalty(l.p, b.price);
        uint256 escrow = Lives.escrow(b);
        book.steps[l.uuid].state = State.Failed;
        book.accounts.release(l.step.executor, held, held - penalty);
        book.accounts.credit(b.client, escrow);
        // INVARIANT 7: the penalty is burned, so a missed commit is worth nothing to anybody.
        book.accounts.credit(Lives.BURN, penalty);
        emit ITaskMarket.Failed(l.uuid, escrow, penalty);
        serviceManager.unlock(l.uuid, l.step.executor);
    }

    function _finish(Book storage book, Life memory l, Bill memory b, IServiceManager serviceManager) private {
        uint256 held = l.collateral(b);
        (uint256 won, uint256 prepaid) = Lives.gains(book, l, b);
        uint256 paid = b.price + won + prepaid;
        uint256 fees = Math.min(l.draw.agreed.count(), b.verifiers) * b.checkFee;
        uint256 rest = Lives.escrow(b) - b.price - fees;
        // INVARIANT 2: every way into a terminal state starts from another state, and no way leads out.
        book.steps[l.uuid].state = State.Final;
        // INVARIANT 5: escrow and collateral go out to the wei; what is left of them are the fees that `settle` pays.
        book.accounts.release(l.step.executor, held, held + paid);
        book.accounts.credit(b.client, rest);
        emit ITaskMarket.Closed(l.uuid, paid, rest);
        serviceManager.unlock(l.uuid, l.step.executor);
    }
}
