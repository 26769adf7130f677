"""The loop and its threads: read the chain, ask the machine, write down what must survive, do what it says."""

import sqlite3
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import structlog

from eigentensor import task as t
from eigentensor import traces
from eigentensor.chain import Chain, Head
from eigentensor.dispute import deadline_of
from eigentensor.errors import ChainError, ClusterError, ConnectionLost, NotSigned, StoreError, WorkerLost
from eigentensor.task.due import position_of
from eigentensor_operator import events, machine, taking
from eigentensor_operator.batches.running import Running
from eigentensor_operator.case import SENT, URGENT, Step
from eigentensor_operator.events import Checked, Do, Drain, Event, Outcome, RolledBack, Undone
from eigentensor_operator.lanes import Lane
from eigentensor_operator.metrics import AVS, INCIDENTS, Metrics
from eigentensor_operator.monitor import Monitor
from eigentensor_operator.node import Pulse
from eigentensor_operator.policy import Claims, Code, Policy, Reason
from eigentensor_operator.preparing import PLACES
from eigentensor_operator.reading import deadlines_of, standing_at
from eigentensor_operator.state import Operator
from eigentensor_operator.steps import Steps
from eigentensor_operator.store import Store, changed

KNOWN_HEADS = 256  # how deep a reorganisation is noticed as such
PING = 15.0  # seconds between questions to the gateway, which is given what is asked then
REREAD = 16  # blocks that a restart may read once more, so that not every block writes to the disk
AGAIN = 2.0  # seconds between attempts to reach a cluster that is away
SILENCE = 45.0  # seconds without an answer after which something counts as down


class Daemon:
    """One operator. `run` returns when `stop` was called; a drained operator goes on serving what it accepted."""

    def __init__(
        self,
        chain: Chain,
        store: Store,
        steps: Steps,
        policy: Policy,
        metrics: Metrics,
        drain_file: Path,
        poll: float,
        ready: Callable[[], None],
        batches: Running | None = None,
    ) -> None:
        """`ready` is called once, when the device has passed its self-test. With `batches` of paid calls these are read
        and seen to as well."""
        self._chain = chain
        self._store = store
        self._steps = steps
        self._metrics = metrics
        self._drain_file = drain_file
        self._poll = poll
        self._ready = ready
        self._is_ready = False
        self._is_testing = True
        self._unfit: Exception | None = None
        self._log = structlog.get_logger()
        self._inbox: SimpleQueue[Callable[[], Event | None] | None] = SimpleQueue()
        self._stopping = False
        self.operator = Operator(policy, store.cases(policy.parameters), testing=True)
        checkpoint = store.checkpoint
        self._heads: deque[Head] = deque([checkpoint] if checkpoint else [], maxlen=KNOWN_HEADS)
        self._decided_at: Head | None = None
        self._is_quiet = False
        self.monitor = Monitor(chain, metrics, {line.task: line.state for line in store.summary()})
        download, gateway, market = Lane("download", taking.DOWNLOADS), Lane("gateway", 2), Lane("market", 4)
        # What may cost stake or a bond when it is late waits for nothing else.
        urgent, reveal, games = Lane("urgent", 4), Lane("reveal", 8), Lane("game", 8)
        self._lanes = (
            dict.fromkeys(Step, market)
            | dict.fromkeys((Step.INSPECT, Step.FETCH), download)
            | dict.fromkeys((Step.DECLINE, Step.UPLOAD), gateway)
            | dict.fromkeys(URGENT, urgent)
            | dict.fromkeys((Step.REVEAL, Step.SHOW), reveal)
            | dict.fromkeys((Step.PLAY, Step.TIMEOUT), games)
            | {Step.EXECUTE: Lane("device", 1), Step.PREPARE: Lane("prepare", sum(PLACES.values()))}
        )
        self.chain_pulse, self.gateway_pulse = Pulse(SILENCE), Pulse(SILENCE)
        self._batches = batches
        if batches is not None:
            batches.start(self._inbox.put, self._lanes[Step.EXECUTE], self._heads[-1] if self._heads else None)

    def stop(self) -> None:
        """Safe to call from a signal handler or another thread."""
        self._stopping = True
        self._inbox.put(None)

    def run(self) -> None:
        """What needs no device goes first: a reveal, an answer or a leaf that the journal holds is late sooner than the
        self-test of a slow device is over. Raises what the self-test raised once nothing is at stake any more."""
        self._chain.sender.resume()
        self._read()
        self._lanes[Step.EXECUTE].put(self._test)
        next_read, next_ping, offering = 0.0, 0.0, False
        while not self._stopping:
            if self._unfit is not None and self._has_finished():
                raise self._unfit
            if time.monotonic() >= next_ping or self.operator.is_offering is not offering:
                self._lanes[Step.UPLOAD].put(self._ping)
                next_ping, offering = time.monotonic() + PING, self.operator.is_offering
            if time.monotonic() >= next_read:
                self._read()
                next_read = time.monotonic() + self._poll
            try:
                outcome = self._inbox.get(timeout=max(0.0, next_read - time.monotonic()))
            except Empty:
                continue
            if outcome is not None:
                self._take(outcome)

    def _take(self, outcome: Callable[[], Event | None]) -> None:
        """What came of something. Where the journal cannot be written, as on a full disk, nothing has been done about
        it: it is taken again."""
        event: Event | None = None
        try:
            event = outcome()
            if event is not None:
                self._feed(event)
        except sqlite3.Error as error:
            self._log.error("journal failed", error=str(error))
            self._inbox.put(outcome if event is None else lambda: event)
            time.sleep(self._poll)

    # ---- in ----

    def _read(self) -> None:
        """Everything that is new on chain, and then the head."""
        if self._drain_file.exists() and not self.operator.draining:
            self._log.info("draining", file=str(self._drain_file))
            self._feed(Drain())
        try:
            complete = False
            while not complete:
                changes = self._chain.history.changes(tuple(self._heads), calls=self._batches is not None)
                if changes.rolled_back_to is not None:
                    self._roll_back(changes.rolled_back_to)
                for event in changes.events:
                    self._observe(event)
                    if self._batches is not None:
                        self._batches.observe(event)
                self._heads.extend(changes.heads)
                complete = changes.complete
            if self._heads and self._heads[-1] != self._decided_at:
                block, quiet = self._heads[-1].number, self._is_quiet
                standing = standing_at(self._chain, self.operator, block, quiet=quiet)
                beside = self._batches.claims() if self._batches is not None else Claims()
                self._feed(events.Head(standing, deadlines_of(self._chain, self.operator), beside))
                if self._batches is not None:
                    self._batches.stands(self.operator)
                self._decided_at, self._is_quiet = self._heads[-1], True
                self._checkpoint()
                known = self._batches.batches if self._batches is not None else None
                self.monitor.stands(self.operator, *((known.games, known.short_clocks()) if known else ()))
            self.chain_pulse.beat()
        except ChainError as error:
            self.chain_pulse.miss()
            self._log.warning("chain unreachable", error=str(error))
        except sqlite3.Error as error:
            self.chain_pulse.miss()
            self._log.error("journal failed", error=str(error))
        except Exception:  # what a node says ends a look at the chain, never the daemon: its games go on
            self.chain_pulse.miss()
            self._log.exception("unexpected", step="read")
        self._metrics.lag.labels(AVS).set(self.chain_pulse.age)

    def _roll_back(self, block: int) -> None:
        self.monitor.rolled_back(block)
        self._is_quiet = False
        while self._heads and self._heads[-1].number > block:
            self._heads.pop()
        self._feed(RolledBack(block))
        if self._batches is not None:
            self._batches.rolled_back(block)

    def _observe(self, event: t.Event) -> None:
        self._is_quiet = False
        before = self.operator
        self._feed(event)
        case = self.operator.cases.get(event.task) if isinstance(event, t.TaskEvent) else None
        if case is None or not isinstance(event, t.TaskEvent):
            return
        if event.task not in before.cases or case.state is not before.cases[event.task].state:
            if self.operator.mine(case):
                self.monitor.reached(event, case.state)
        elif self._decided_at is not None and isinstance(event, INCIDENTS):  # not what a restart reads again
            self.monitor.happened(event, self.operator)

    def _checkpoint(self) -> None:
        """Remembers the newest head before everything that is still of interest."""
        posted = [case.life.posted.block for case in self.operator.cases.values() if case.life.posted]
        oldest = min(posted, default=self._heads[-1].number + 1)
        settled = [head for head in self._heads if head.number < oldest]
        before = self._store.checkpoint
        if settled and (before is None or settled[-1].number >= before.number + REREAD):
            self._store.checkpoint = settled[-1]

    # ---- through ----

    def _feed(self, event: Event) -> None:
        """One event through the machine. What it decided is on disk before anything is done about it."""
        before = self.operator
        after, actions = machine.step(before, event)
        forgotten = before.cases.keys() - after.cases.keys()
        news = changed(before, after)
        if news or forgotten:
            self._store.save(after, news, forgotten)
        self.operator = after
        for uuid in forgotten:
            self._steps.forget(uuid)
        self.monitor.forgotten(forgotten)
        self.monitor.decided(before, after)
        for do in actions:
            self._start(do)

    # ---- out ----

    def _start(self, do: Do) -> None:
        case, head = self.operator.cases[do.task], self.operator.head
        by, behind = case.deadline, False
        self.monitor.begun(do, case.refused)
        work = partial(self._steps.do, do.step, case, head)
        if do.game:
            position = position_of(case.life, do.game)
            by, behind = deadline_of(position), self.operator.is_beyond(case, do.game)
            work = partial(self._steps.play, do.step, do.game, position)
        self._lanes[do.step].put(partial(self._perform, do, work), by, behind=behind)

    def _perform(self, do: Do, work: Callable[[], Outcome]) -> None:
        """In a lane's thread."""
        started = time.monotonic()
        try:
            with traces.span(str(do.step), do.task):
                outcome = work()
        except Exception as error:  # a fault of ours in one task must not end the others
            self._log.exception("unexpected", task=do.task.hex(), step=do.step)
            reason = Reason(Code.EXECUTION, "no error", repr(error), do.step not in SENT)
            outcome = Undone(do.task, do.step, reason, do.game)
        self._inbox.put(partial(self._conclude, do.step, outcome, time.monotonic() - started))

    def _conclude(self, step: Step, outcome: Outcome, seconds: float) -> Event:
        self.monitor.concluded(step, outcome, seconds)
        is_away = isinstance(outcome, Undone) and outcome.reason.code is Code.CLUSTER
        if is_away and not self._is_testing:
            self._is_testing = True
            self._lanes[Step.EXECUTE].put(self._test)
        return outcome

    def _test(self) -> None:
        """In the device's thread. That a cluster is away says nothing about it: it is asked until it is there."""
        while not self._stopping:
            try:
                self._steps.test()
                self._inbox.put(partial(self._tested, None))
            except (ConnectionLost, WorkerLost) as error:
                self._inbox.put(partial(self._missed, error))
                time.sleep(AGAIN)
                continue
            except Exception as error:
                self._inbox.put(partial(self._tested, error))
            return

    def _missed(self, error: ClusterError) -> Event:
        self._log.warning("the cluster is away", error=f"{error} {error.fix}".strip())
        return Checked(Reason(Code.CLUSTER, "a cluster that answers", " ".join(str(error).split()), lasting=False))

    def _tested(self, error: Exception | None) -> Event:
        self._unfit, self._is_testing = error, False
        if error is not None:
            return Checked(Reason(Code.DEVICE, "a device that passes its self-test", " ".join(str(error).split())))
        self._log.info("the device passed its self-test")
        if not self._is_ready:
            self._is_ready = True
            self._ready()
        return Checked()

    def _has_finished(self) -> bool:
        """Whether the chain was read, and nothing more can come of what is at stake."""
        batches = self._batches is None or not self._batches.is_at_stake
        tasks = all(map(self.operator.is_finished, self.operator.cases.values()))
        return self._decided_at is not None and tasks and batches

    def _ping(self) -> None:
        """In a lane's thread, now and then."""
        try:
            self._steps.ping()
            self.gateway_pulse.beat()
        except StoreError as error:
            self.gateway_pulse.miss()
            self._log.warning("gateway unreachable", error=str(error))
            return
        if self.operator.is_offering:
            try:
                self._steps.ask(self.operator.head)
            except (StoreError, NotSigned) as error:
                self._log.warning("the gateway does not take what is asked", error=str(error))
