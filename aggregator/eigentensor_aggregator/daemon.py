"""The loop: read the chain, ask the machine, send what is due."""

import threading
import time
from collections.abc import Callable

import structlog

from eigentensor.chain import Chain, Reader
from eigentensor.errors import ChainError, NotMined, Reverted
from eigentensor_aggregator.machine import Action, Verb, due
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.store import Store

_log = structlog.get_logger(__name__)


class Daemon:
    """Follows one market. With a `chain` it sends messages that anybody may send; without, it only watches."""

    def __init__(self, reader: Reader, store: Store, metrics: Metrics, chain: Chain | None, poll: float) -> None:
        self._reader = reader
        self._store = store
        self._metrics = metrics
        self._chain = chain
        self._poll = poll
        self._stop = threading.Event()
        self._turning = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="daemon")
        self._seen = time.monotonic()
        self.block = max((head.number for head in store.heads()), default=0)

    @property
    def silence(self) -> float:
        """Seconds since the chain last answered."""
        return time.monotonic() - self._seen

    @property
    def is_healthy(self) -> bool:
        return self._thread.is_alive() and self.silence < max(15.0, 10 * self._poll)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the message that is being sent is in the chain or journalled."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def turn(self) -> None:
        """One round: catch up with the chain, then send what is due. Rounds do not overlap."""
        with self._turning:
            while not self._catch_up() and not self._stop.is_set():
                pass
            if self._chain is None:
                return
            for action in due(self._store.late(self.block), self._reader.deployment.parameters, self.block):
                if self._stop.is_set():
                    return
                self._send(self._chain, action)

    def _run(self) -> None:
        if self._chain is not None:
            self._guarded(self._chain.sender.resume)
        while not self._stop.is_set():
            self._guarded(self.turn)
            self._stop.wait(self._poll)

    def _guarded(self, do: Callable[[], None]) -> None:
        """A fault of the chain, or one of ours, ends a round, never the loop."""
        try:
            do()
        except ChainError as error:
            self._metrics.poll_failures.inc()
            _log.warning("chain failed", what=error.what)
        except Exception:
            self._metrics.poll_failures.inc()
            _log.exception("round failed")

    def _catch_up(self) -> bool:
        changes = self._reader.changes(self._store.heads())
        self._store.apply(changes)
        if changes.rolled_back_to is not None:
            self._metrics.reorganisations.inc()
            _log.warning("chain was reorganised", back_to=changes.rolled_back_to)
            self.block = changes.rolled_back_to
        for event in changes.events:
            task = getattr(event, "task", None)
            _log.info(type(event).__name__.lower(), block=event.place.block, task=task.hex() if task else None)
        if changes.heads:
            self.block = changes.heads[-1].number
        self._seen = time.monotonic()
        self._metrics.block.set(self.block)
        if changes.events or changes.rolled_back_to is not None:
            for state, count in self._store.counts().items():
                self._metrics.tasks.labels(state).set(count)
        return changes.complete

    def _send(self, chain: Chain, action: Action) -> None:
        orders = [view.order for view in action.tasks]
        tasks = [view.task.hex() for view in action.tasks]
        send = {
            Verb.EXPIRE: lambda: chain.expire(orders[0]),
            Verb.FAIL: lambda: chain.fail(orders[0]),
            Verb.CLOSE: lambda: chain.close_many(orders) if len(orders) > 1 else chain.close(orders[0]),
        }
        try:
            receipt = send[action.verb]()
        except Reverted as error:
            # Somebody else was faster, or the task cannot be closed yet.
            self._metrics.messages.labels(action.verb, "refused").inc()
            _log.info("message refused", verb=action.verb, tasks=tasks, why=error.what)
        except NotMined:
            _log.info("message waits", verb=action.verb, tasks=tasks)
        except ChainError as error:
            self._metrics.messages.labels(action.verb, "failed").inc()
            _log.warning("message failed", verb=action.verb, tasks=tasks, what=error.what)
        else:
            self._metrics.messages.labels(action.verb, "mined").inc()
            self._metrics.gas.inc(receipt.gas_used)
            _log.info("message sent", verb=action.verb, tasks=tasks, block=receipt.block, gas=receipt.gas_used)
