"""The loop: read the chain, ask the machine, send what is due."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError

from eigentensor import traces
from eigentensor.chain import Chain, Changes, Head, Mined, Reader
from eigentensor.channel import due as batch_due
from eigentensor.channel.due import BatchDue, BatchVerb
from eigentensor.channel.due import Key as BatchKey
from eigentensor.errors import ChainError, NotMined, Reverted
from eigentensor.task import due
from eigentensor.task.due import Action, Key, Verb, position_of
from eigentensor_aggregator.events import MOVES, Sent
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.store import Store

#: Blocks after which a refused message is tried again at the latest.
PAUSE = 256
#: Blocks between two looks for seats that no stake covers.
PRUNE = 64
#: Rounds in which a receipt is asked for that the node should have.
LOOKS = 8
_log = structlog.get_logger(__name__)
K = TypeVar("K")


class Pause(NamedTuple):
    """A message that was refused rests before block `until`; the next time for `blocks`."""

    until: int = 0
    blocks: int = 0


class Ahead(NamedTuple):
    """What happened behind a block, as it is being asked for."""

    block: Head
    changes: "Future[Changes]"


def rested(actions: Iterable[Action], pauses: Mapping[Key, Pause], block: int) -> Iterator[Action]:
    """The messages without the tasks that rest: those hold up no others."""
    for action in actions:
        ready = zip(action.keys, action.lives, strict=True)
        lives = tuple(life for key, life in ready if pauses.get(key, Pause()).until <= block)
        if lives:
            yield replace(action, lives=lives)


def _kept(pauses: Mapping[K, Pause], keys: Collection[K]) -> dict[K, Pause]:
    return {key: pause for key, pause in pauses.items() if key in keys}


class Daemon:
    """Follows one market, in the lead of its database; as long as another process has that, it follows the database
    alone. With a `chain` it sends messages that anybody may send and that are its concern, and prunes seats if all
    are; `watch` has its turn in each round, with the newest block that was read; `taking` is called when it takes the
    lead; `tell` hears the newest block and the store's version after each look at the chain."""

    def __init__(
        self,
        reader: Reader,
        store: Store,
        metrics: Metrics,
        chain: Chain | None,
        poll: float,
        watch: Callable[[int], None] | None = None,
        concerns: Callable[[Action], bool] | None = None,
        taking: Callable[[], None] = lambda: None,
        tell: Callable[[int, int], None] = lambda _, __: None,
    ) -> None:
        self._reader = reader
        self._watch = watch
        self._taking = taking
        self._tell = tell
        self._concerns = concerns or (lambda _: True)
        self._prunes = concerns is None
        self._store = store
        self._queries = Queries(store)
        self._metrics = metrics
        self._chain = chain
        self._poll = poll
        self._stop = threading.Event()
        self._turning = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="daemon")
        self._asking = ThreadPoolExecutor(1, "history")
        self._ahead: Ahead | None = None
        self._seen = time.monotonic()
        self._missing: Counter[bytes] = Counter()
        self._pauses: dict[Key, Pause] = {}
        self._batch_pauses: dict[BatchKey, Pause] = {}
        self._capped = False
        self._pruned = -PRUNE
        self._resumed = True
        self._counted = False
        self.leads = False
        self.block = max((head.number for head in store.heads()), default=0)

    @property
    def silence(self) -> float:
        """Seconds since the chain last answered."""
        return time.monotonic() - self._seen

    @property
    def version(self) -> int:
        """Another one whenever something happened, as the store counts."""
        return self._store.version

    @property
    def is_healthy(self) -> bool:
        """Whether it runs, and the chain answers."""
        return self._thread.is_alive() and self.silence < max(15.0, 10 * self._poll)

    def start(self) -> None:
        """Begins rounds in a thread of their own; whether it leads is settled when this returns."""
        self._guarded(self._lead)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the message that is being sent is in the chain or journalled. Another process may lead then."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._asking.shutdown(wait=False, cancel_futures=True)
        with self._turning:
            self.leads = False
            self._store.lead.release()

    def turn(self) -> None:
        """One round: catch up with the chain, then send what is due. Rounds do not overlap."""
        with self._turning:
            if not self._lead():
                self._tell(self.block, self._store.version)
                return
            if not self._resumed and self._chain is not None:
                self._resumed = True
                self._guarded(self._chain.sender.resume)
            while not self._catch_up() and not self._stop.is_set():
                pass
            self._tell(self.block, self._store.version)
            if self._watch is not None:
                self._guarded(partial(self._watch, self.block))
            if self._chain is None:
                return
            self._warn(self._chain.sender.fees.capped)
            late = due.actions(self._store.late(self.block), self.block)
            actions = [action for action in late if self._concerns(action)]
            batches = batch_due.actions(self._store.late_batches(self.block), self.block) if self._prunes else []
            self._pauses = _kept(self._pauses, {key for action in actions for key in action.keys})
            self._batch_pauses = _kept(self._batch_pauses, {message.key for message in batches})
            for action in rested(actions, self._pauses, self.block):
                if self._stop.is_set():
                    return
                self._send(self._chain, action)
            for message in batches:
                if self._stop.is_set():
                    return
                if self._batch_pauses.get(message.key, Pause()).until <= self.block:
                    self._send_batch(self._chain, message)
            if self._prunes and self.block >= self._pruned + PRUNE:
                self._pruned = self.block
                self._prune(self._chain)

    def _lead(self) -> bool:
        """Whether it is in the lead; else it only looks what the one that is has written."""
        led, leads = self.leads, not self._stop.is_set() and self._store.lead.hold()
        if not led or not leads:
            self.block = self._store.follow()
            self._seen = time.monotonic()
        if leads and not led:
            self._guarded(self._taking)
            self._resumed = self._chain is None
        if leads != led:
            _log.info("leads" if leads else "stands by")
        self.leads = leads
        self._metrics.leads.set(leads)
        return leads

    def _run(self) -> None:
        while not self._stop.is_set():
            self._guarded(self.turn)
            self._stop.wait(self._poll)

    def _guarded(self, do: Callable[[], object]) -> None:
        """A fault of the chain, or one of ours, ends a round, never the loop."""
        try:
            do()
        except ChainError as error:
            self._metrics.poll_failures.inc()
            _log.warning("chain failed", what=error.what)
        except SQLAlchemyError as error:  # again and again while a disk is full: without its trace
            self._metrics.poll_failures.inc()
            _log.error("database failed", what=str(getattr(error, "orig", error)))
        except Exception:
            self._metrics.poll_failures.inc()
            _log.exception("round failed")

    def _warn(self, capped: bool) -> None:
        if capped and not self._capped:
            _log.error("gas costs more than is allowed", fix="Allow more, or games may be lost by the clock.")
        self._capped = capped
        self._metrics.capped.set(capped)

    def _changes(self) -> Changes:
        """What is new. Where more is, the node is asked for it while this is written down."""
        known, ahead, self._ahead = self._store.heads(), self._ahead, None
        if ahead is not None and known[-1:] == [ahead.block]:
            changes = ahead.changes.result()
        else:
            changes = self._reader.history.changes(known, calls=True)
        if not changes.complete and not self._stop.is_set():
            back = changes.rolled_back_to
            then = [*(head for head in known if back is None or head.number <= back), *changes.heads]
            self._ahead = Ahead(then[-1], self._asking.submit(self._reader.history.changes, then, calls=True))
        return changes

    def _catch_up(self) -> bool:
        changes = self._changes()
        moves = {event.place.transaction for event in changes.events if isinstance(event, MOVES)}
        known = {transaction: self._sent(transaction) for transaction in moves}
        self._store.apply(changes, {transaction: sent for transaction, sent in known.items() if sent is not None})
        self._missing.clear()
        if changes.rolled_back_to is not None:
            self._metrics.reorganisations.inc()
            _log.warning("chain was reorganised", back_to=changes.rolled_back_to)
            self.block = changes.rolled_back_to
        if changes.heads:
            self.block = changes.heads[-1].number
        if not changes.complete:
            _log.info("catches up", block=self.block, events=len(changes.events))
        for event in changes.events if changes.complete else ():
            task = getattr(event, "task", None)
            _log.info(type(event).__name__.lower(), block=event.place.block, task=task.hex() if task else None)
        self._seen = time.monotonic()
        self._metrics.block.set(self.block)
        self._counted &= not changes.events and changes.rolled_back_to is None
        if changes.complete and not self._counted:
            self._counted = True
            for state, count in self._queries.counts().items():
                self._metrics.tasks.labels(state).set(count)
            for state, count in self._queries.batch_counts().items():
                self._metrics.batches.labels(state).set(count)
            self._metrics.channels.set(self._queries.open_channels())
            self._metrics.games.set(self._queries.open_games())
        return changes.complete

    def _sent(self, transaction: bytes) -> Sent | None:
        """Who sent a transaction; None where the node never has its receipt: nothing waits for that longer."""
        receipt = self._reader.node.receipt(transaction)
        if receipt is None:
            self._missing[transaction] += 1
            if self._missing[transaction] > LOOKS:
                return None
            raise ChainError("there is no receipt of a transaction in the chain", fix="The next round asks again.")
        return Sent(str(receipt["from"]), receipt["gasUsed"])

    def _send(self, chain: Chain, action: Action) -> None:
        message = {"verb": action.verb, "tasks": [life.uuid.hex() for life in action.lives], "number": action.number}
        if action.verb is Verb.PAY and (first := chain.stake.payable_from(action.number)) > self.block + 1:
            self._pauses[action.keys[0]] = Pause(first - 1, 1)  # the core says when
            return
        begun = time.time()
        try:
            receipt = self._mined(message, partial(_message, chain, action))
        except Reverted as error:
            if len(action.lives) > 1:  # one of them holds up the others
                for life in action.lives:
                    self._send(chain, Action(action.verb, (life,)))
                return
            self._refused(self._pauses, action.keys[0], message, error)
            return
        for life in action.lives if receipt is not None else ():
            traces.passed(str(action.verb), life.uuid, begun)
        if receipt is not None and action.verb is Verb.CLOSE:  # many of them leave alone what cannot be closed
            closed = {getattr(event, "task", None) for event in receipt.events}
            for key in action.keys:
                if key[1] not in closed:
                    self._rest(self._pauses, key)

    def _send_batch(self, chain: Chain, due: BatchDue) -> None:
        message = {"verb": due.verb, "batch": due.life.batch.hex(), "numbers": due.numbers}
        try:
            self._mined(message, partial(_batch_message, chain, due))
        except Reverted as error:
            self._refused(self._batch_pauses, due.key, message, error)

    def _mined(self, message: Mapping[str, Any], send: Callable[[], Mined]) -> Mined | None:
        """Sends, and says what came of it; None: it is not in the chain. Raises Reverted."""
        try:
            receipt = send()
        except Reverted:
            raise
        except NotMined:
            _log.info("message waits", **message)
        except ChainError as error:
            self._metrics.messages.labels(message["verb"], "failed").inc()
            _log.warning("message failed", **message, what=error.what)
        else:
            self._metrics.messages.labels(message["verb"], "mined").inc()
            self._metrics.gas.inc(receipt.gas_used)
            _log.info("message sent", **message, block=receipt.block, gas=receipt.gas_used)
            return receipt
        return None

    def _refused(self, pauses: dict[K, Pause], key: K, message: Mapping[str, Any], error: Reverted) -> None:
        """Somebody else was faster, or it is not time yet."""
        self._rest(pauses, key)
        self._metrics.messages.labels(message["verb"], "refused").inc()
        _log.info("message refused", **message, why=error.what)

    def _rest(self, pauses: dict[K, Pause], key: K) -> None:
        """Asks again after a pause, each twice as long as the last."""
        pause = pauses.get(key, Pause()).blocks
        pauses[key] = Pause(self.block + pause, min(PAUSE, max(1, 2 * pause)))

    def _prune(self, chain: Chain) -> None:
        """Takes seats from those whose stake has gone elsewhere, and gets their deposits."""
        for row in self._queries.operator_rows():
            if int(row.seats) == 0 or chain.stake.covers_seats(row.operator):
                continue
            try:
                chain.stake.prune(row.operator, once=f"prune {row.operator} {self.block}")
            except Reverted as error:
                self._metrics.messages.labels("prune", "refused").inc()
                _log.info("message refused", verb="prune", operator=row.operator, why=error.what)
            except NotMined:
                _log.info("message waits", verb="prune", operator=row.operator)
            else:
                self._metrics.messages.labels("prune", "mined").inc()
                _log.info("message sent", verb="prune", operator=row.operator)


def _message(chain: Chain, action: Action) -> Mined:
    life, number = action.lives[0], action.number
    match action.verb:
        case Verb.SEED:
            return chain.market.seed(number)
        case Verb.EXPIRE:
            return chain.market.expire(life.order)
        case Verb.CLOSE if len(action.lives) > 1:
            return chain.market.close_many([task.order for task in action.lives])
        case Verb.CLOSE:
            return chain.market.close(life.order)
        case Verb.TIMEOUT:
            return chain.games.timeout(number, position_of(life, number))
        case Verb.SETTLE:
            return chain.market.settle(life.order, number)
        case Verb.REFUND:
            return chain.market.refund(life.order, number)
        case Verb.SLASH:
            return chain.market.slash(life.order)
        case Verb.PAY:
            return chain.stake.pay_bounty(number)


def _batch_message(chain: Chain, due: BatchDue) -> Mined:
    life, offer, number = due.life, due.life.offer, due.life.number
    match due.verb:
        case BatchVerb.SEED:
            return chain.market.seed(*due.numbers)
        case BatchVerb.CLOSE:
            return chain.channels.close(offer, number)
        case BatchVerb.TIMEOUT:
            game = life.games[due.numbers[0]]
            assert game.position is not None
            return chain.call_games.timeout(game.number, game.position)
        case BatchVerb.DENOUNCE:
            assert due.demand is not None
            return chain.channels.denounce(offer, number, due.demand.number, due.demand.leaves)
        case BatchVerb.DENOUNCE_SHARE:
            return chain.channels.denounce_share(offer, number, *due.numbers)
        case BatchVerb.SETTLE:
            return chain.channels.settle(offer, number, due.numbers)
        case BatchVerb.REFUND_BOND:
            game = life.games[due.numbers[0]]
            return chain.channels.refund_bond(offer, number, game.task, game.number)
        case BatchVerb.SLASH:
            return chain.channels.slash(offer, number)
