"""The loop: read the chain, ask the machine, write down what must survive, do what it says."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import structlog

from eigentensor import chain as c
from eigentensor.chain import Chain, Head, State
from eigentensor.errors import ChainError, StoreError
from eigentensor_operator import events, machine, taking
from eigentensor_operator.alarms import FIXES, Alarm, alarms_of
from eigentensor_operator.case import SENT, URGENT, Role, Step
from eigentensor_operator.events import Do, Drain, Event, Noted, Outcome, RolledBack, Seen, Undone
from eigentensor_operator.lanes import Lane
from eigentensor_operator.metrics import AVS, Metrics, name_of
from eigentensor_operator.node import Pulse
from eigentensor_operator.policy import Code, Policy, Reason, Standing
from eigentensor_operator.reading import seen_of, standing_of
from eigentensor_operator.state import Operator, Turn
from eigentensor_operator.steps import Steps
from eigentensor_operator.store import Store, changed

KNOWN_HEADS = 256  # how deep a reorganisation is noticed as such
PING = 15.0  # seconds between questions to the gateway
PACE = 64  # blocks after which their pace is looked at again
SILENCE = 45.0  # seconds without an answer after which something counts as down


class Daemon:
    """One operator. `run` returns when `stop` was called; a drained operator goes on serving what it accepted."""

    def __init__(
        self, chain: Chain, store: Store, steps: Steps, policy: Policy, metrics: Metrics, drain_file: Path, poll: float
    ) -> None:
        self._chain = chain
        self._store = store
        self._steps = steps
        self._metrics = metrics
        self._drain_file = drain_file
        self._poll = poll
        self._log = structlog.get_logger()
        self._inbox: SimpleQueue[Callable[[], Event] | None] = SimpleQueue()
        self._stopping = False
        self.operator = Operator(policy, store.cases())
        checkpoint = store.checkpoint
        self._heads: deque[Head] = deque([checkpoint] if checkpoint else [], maxlen=KNOWN_HEADS)
        self._decided_at: Head | None = None
        self._ended: Counter[State] = Counter()
        self._short: frozenset[Turn] = frozenset()
        self._capped = False
        self.alarms: Mapping[Alarm, str] = {}
        self._paced = 0
        self._told = {line.case.uuid: line.state for line in store.summary()}  # what was logged and counted already
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
            | {Step.EXECUTE: Lane("device", 1)}
        )
        self.chain_pulse, self.gateway_pulse = Pulse(SILENCE), Pulse(SILENCE)

    @property
    def is_pressed(self) -> bool:
        """Whether a clock is short, or gas costs more than its moves may pay."""
        return bool(self._short) or self._capped

    def stop(self) -> None:
        """Safe to call from a signal handler or another thread."""
        self._stopping = True
        self._inbox.put(None)

    def run(self) -> None:
        self._chain.sender.resume()
        next_read = next_ping = 0.0
        while not self._stopping:
            if time.monotonic() >= next_ping:
                self._lanes[Step.UPLOAD].put(self._ping)
                next_ping = time.monotonic() + PING
            if time.monotonic() >= next_read:
                self._read()
                next_read = time.monotonic() + self._poll
            try:
                outcome = self._inbox.get(timeout=max(0.0, next_read - time.monotonic()))
            except Empty:
                continue
            if outcome is not None:
                self._feed(outcome())

    # ---- in ----

    def _read(self) -> None:
        """Everything that is new on chain, and then the head."""
        if self._drain_file.exists() and not self.operator.draining:
            self._log.info("draining", file=str(self._drain_file))
            self._feed(Drain())
        try:
            complete = False
            while not complete:
                changes = self._chain.changes(tuple(self._heads))
                if changes.rolled_back_to is not None:
                    self._roll_back(changes.rolled_back_to)
                for event in changes.events:
                    self._observe(event)
                self._heads.extend(changes.heads)
                complete = changes.complete
            if self._heads and self._heads[-1] != self._decided_at:
                self._feed(events.Head(self._standing(self._heads[-1].number)))
                self._decided_at = self._heads[-1]
                self._checkpoint()
                self._warn()
            self.chain_pulse.beat()
        except ChainError as error:
            self.chain_pulse.miss()
            self._log.warning("chain unreachable", error=str(error))
        self._metrics.lag.labels(AVS).set(self.chain_pulse.age)

    def _roll_back(self, block: int) -> None:
        self._log.warning("reorganisation", back_to=block)
        self._told.clear()
        while self._heads and self._heads[-1].number > block:
            self._heads.pop()
        self._feed(RolledBack(block))

    def _observe(self, event: c.Event) -> None:
        seen = seen_of(event)
        if isinstance(seen, Noted):
            self._feed(seen)
            if self._decided_at is not None and isinstance(event, c.TaskEvent):  # not what a restart reads again
                self._tell(event)
        if not isinstance(seen, Seen):
            return
        case = self.operator.cases.get(seen.task)
        mine = seen.fact.executor == self.operator.policy.operator or (case is not None and self.operator.mine(case))
        self._feed(seen)
        if mine and seen.fact.state > self._told.get(seen.task, State.NONE):
            self._told[seen.task] = seen.fact.state
            self._metrics.tasks.labels(AVS, seen.fact.state.name.lower()).inc()
            self._log.info(seen.fact.state.name.lower(), task=seen.task.hex(), block=seen.fact.block)
            if isinstance(event, c.Closed):
                self._metrics.fees.labels(AVS, self._chain.deployment.token_symbol).inc(event.paid)
            if seen.fact.state.is_terminal:
                self._ended[seen.fact.state] += 1
                self._metrics.score.labels(AVS).set(100 * self._ended[State.FINAL] / self._ended.total())

    def _tell(self, event: c.TaskEvent) -> None:
        """Logs and counts what happens to a task in which this operator has a part."""
        case = self.operator.cases.get(event.task)
        if case is None or not (role := self.operator.role_in(case)):
            return
        name, token = name_of(type(event)), self._chain.deployment.token_symbol
        details = {k: v for k, v in event.arguments().items() if k not in ("task", "position", "data", "leaves")}
        if isinstance(event, c.Opened | c.Moved):
            details["phase"] = event.position.phase.name.lower()
        self._log.info(name, task=event.task.hex(), role=role.value, block=event.place.block, **details)
        self._metrics.incidents.labels(AVS, name).inc()
        if isinstance(event, c.Slashed) and self.operator.mine(case):
            self._metrics.slashed.labels(AVS, token).inc(self._chain.worth_of(event.shares))

    def _standing(self, block: int) -> Standing:
        m, last = self._metrics, self.operator.standing
        standing = standing_of(self._chain, self.operator.policy, block, self._chain.address, last)
        token = self._chain.deployment.token_symbol
        m.balance.labels(AVS, token).set(standing.balance)
        m.collateral.labels(AVS, token).set(standing.collateral)
        m.stake_free.labels(AVS, token).set(standing.stake)
        m.stake_locked.labels(AVS, token).set(standing.locked)
        m.seats.labels(AVS).set(standing.seats)
        m.bonds.labels(AVS, token).set(sum(map(self.operator.bond_of, self.operator.cases.values())))
        m.games.labels(AVS).set(len(self.operator.open_games()))
        m.head.labels(AVS).set(block)
        return standing

    def _warn(self) -> None:
        """Raises the alarms: what costs stake or a bond unless somebody sees to it."""
        short, capped = frozenset(self.operator.short_clocks()), self._chain.sender.fees.capped
        for turn in short - self._short:
            left = turn.by - self.operator.head
            self._log.error("clock is short", task=turn.task.hex(), game=turn.game or None, blocks_left=left)
        if capped and not self._capped:
            self._log.error("gas costs more than is allowed", fix="Allow more, or games may be lost by the clock.")
        self._short, self._capped = short, capped
        self._metrics.short.labels(AVS).set(len(short))
        self._metrics.capped.labels(AVS).set(capped)
        self._tell_alarms()
        if self.operator.head >= self._paced + PACE:
            self._paced, seconds = self.operator.head, self._chain.block_seconds()
            self._metrics.pace.labels(AVS).set(seconds)
            if 2 * seconds < self.operator.policy.block_seconds:
                expected = self.operator.policy.block_seconds
                self._log.warning("blocks are fast", seconds=seconds, expected=expected, fix="Lower BLOCK_SECONDS.")

    def _tell_alarms(self) -> None:
        """What EigenLayer did, or its owners, to the stake that backs every task."""
        standing = self.operator.standing
        assert standing is not None
        found = alarms_of(self.operator.policy, standing)
        for alarm, text in found.items():
            if self.alarms.get(alarm) != text:
                say = self._log.warning if alarm in (Alarm.QUEUED, Alarm.DEALLOCATING) else self._log.error
                say("stake alarm", alarm=alarm.value, what=text, fix=FIXES[alarm])
        for alarm in self.alarms.keys() - found.keys():
            self._log.info("stake alarm is over", alarm=alarm.value)
        self.alarms = found
        for alarm in Alarm:
            self._metrics.alarms.labels(AVS, alarm).set(alarm in found)

    def _checkpoint(self) -> None:
        """Remembers the newest head before everything that is still of interest."""
        posted = [case.history[0].block for case in self.operator.cases.values() if case.history]
        oldest = min(posted, default=self._heads[-1].number + 1)
        settled = [head for head in self._heads if head.number < oldest]
        before = self._store.checkpoint
        if settled and (before is None or settled[-1].number > before.number):
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
            self._told.pop(uuid, None)
        self._report(before, after)
        for do in actions:
            self._start(do)

    def _report(self, before: Operator, after: Operator) -> None:
        for uuid, case in after.cases.items():
            old = before.cases.get(uuid)
            if old is case:
                continue
            if case.dropped is not None and (old is None or old.dropped is None):
                self._metrics.dropped.labels(AVS, case.dropped.code).inc()
                self._log.error("dropped", task=uuid.hex(), **_words(case.dropped))
            if case.unanswered is not None and (old is None or case.unanswered.code is not _code(old.unanswered)):
                self._metrics.unanswered.labels(AVS, case.unanswered.code).inc()
                self._log.info("not answered", task=uuid.hex(), **_words(case.unanswered))
        if after.faulty is not None and before.faulty is None:
            self._log.error("device is faulty", **_words(after.faulty))
        self._metrics.selftest.labels(AVS).set(after.faulty is None)

    # ---- out ----

    def _start(self, do: Do) -> None:
        case, head = self.operator.cases[do.task], self.operator.head
        by = self.operator.deadline(case)
        if do.step is Step.DECLINE and case.refused is not None:
            self._metrics.declined.labels(AVS, case.refused.code).inc()
            self._log.info("declined", task=do.task.hex(), **_words(case.refused))
        if do.step is Step.HALT:
            self._log.critical("convicted: nothing more is accepted", task=do.task.hex(), role=Role.EXECUTOR.value)
        work = partial(self._steps.do, do.step, case, head)
        if do.game:
            game = self.operator.games[do.game]
            by, work = game.last_block, partial(self._steps.play, do.step, game)
        self._lanes[do.step].put(partial(self._perform, do, work), by)

    def _perform(self, do: Do, work: Callable[[], Outcome]) -> None:
        """In a lane's thread."""
        started = time.monotonic()
        try:
            outcome = work()
        except Exception as error:  # a fault of ours in one task must not end the others
            self._log.exception("unexpected", task=do.task.hex(), step=do.step)
            reason = Reason(Code.EXECUTION, "no error", repr(error), do.step not in SENT)
            outcome = Undone(do.task, do.step, reason, do.game)
        self._inbox.put(partial(self._conclude, do.step, outcome, time.monotonic() - started))

    def _conclude(self, step: Step, outcome: Outcome, seconds: float) -> Event:
        task = outcome.task.hex()
        self._metrics.phase.labels(AVS, step).observe(seconds)
        if isinstance(outcome, Undone):
            self._metrics.failures.labels(AVS, step).inc()
            say = self._log.info if step is Step.ACCEPT else self._log.warning  # somebody else being faster is no fault
            say(f"{step} failed", task=task, seconds=round(seconds, 3), **_words(outcome.reason))
        elif step not in SENT:  # those are told when the chain shows them
            self._log.info(step.value, task=task, seconds=round(seconds, 3))
        return outcome

    def _ping(self) -> None:
        """In a lane's thread, now and then."""
        try:
            self._steps.ping()
            self.gateway_pulse.beat()
        except StoreError as error:
            self.gateway_pulse.miss()
            self._log.warning("gateway unreachable", error=str(error))


def _code(reason: Reason | None) -> Code | None:
    return reason.code if reason else None


def _words(reason: Reason) -> dict[str, str]:
    return {"reason": reason.code.value, "needed": reason.needed, "offered": reason.offered}
