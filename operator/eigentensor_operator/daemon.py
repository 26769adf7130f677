"""The loop: read the chain, ask the machine, write down what must survive, do what it says."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import structlog

from eigentensor import chain as c
from eigentensor.chain import Chain, Head, State
from eigentensor.errors import ChainError, StoreError
from eigentensor_operator import events, machine
from eigentensor_operator.case import SENT, Case, Fact, Step
from eigentensor_operator.events import Do, Drain, Event, RolledBack, Seen, Undone
from eigentensor_operator.lanes import Lane
from eigentensor_operator.machine import Operator
from eigentensor_operator.metrics import AVS, Metrics
from eigentensor_operator.node import Pulse
from eigentensor_operator.policy import Code, Policy, Reason, Standing
from eigentensor_operator.steps import Outcome, Steps
from eigentensor_operator.store import Store, changed

KNOWN_HEADS = 256  # how deep a reorganisation is noticed as such
PING = 15.0  # seconds between questions to the gateway
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
        self._told = {uuid: state for uuid, state, _, _ in store.summary()}  # what was logged and counted already
        download, gateway, market = Lane("download", machine.DOWNLOADS), Lane("gateway", 2), Lane("market", 4)
        self._lanes = dict.fromkeys(Step, market) | {
            Step.INSPECT: download,
            Step.FETCH: download,
            Step.EXECUTE: Lane("device", 1),
            Step.DECLINE: gateway,
            Step.UPLOAD: gateway,
        }
        self.chain_pulse, self.gateway_pulse = Pulse(SILENCE), Pulse(SILENCE)

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
        if seen is None:
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

    def _standing(self, block: int) -> Standing:
        operator, chain = self.operator.policy.operator, self._chain
        account = chain.balance_of(operator)
        signer, cap = chain.signer_of(operator)
        token = chain.deployment.token_symbol
        self._metrics.balance.labels(AVS, token).set(account.balance)
        self._metrics.collateral.labels(AVS, token).set(account.collateral)
        self._metrics.head.labels(AVS).set(block)
        member = chain.is_member(operator) and signer == chain.address
        return Standing(block, account.balance, account.collateral, cap, chain.stake_delay(), member)

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
        news = changed(before.cases, after.cases)
        if news or forgotten:
            self._store.save([(case, after.mine(case)) for case in news], forgotten)
        self.operator = after
        for uuid in forgotten:
            self._steps.forget(uuid)
            self._told.pop(uuid, None)
        self._report(before, after, news)
        for do in actions:
            self._start(do)

    def _report(self, before: Operator, after: Operator, news: Sequence[Case]) -> None:
        for case in news:
            old = before.cases.get(case.uuid)
            if case.dropped is not None and (old is None or old.dropped is None):
                self._metrics.dropped.labels(AVS, case.dropped.code).inc()
                self._log.error("dropped", task=case.uuid.hex(), **_words(case.dropped))
        if after.faulty is not None and before.faulty is None:
            self._log.error("device is faulty", **_words(after.faulty))
        self._metrics.selftest.labels(AVS).set(after.faulty is None)

    # ---- out ----

    def _start(self, do: Do) -> None:
        case, head = self.operator.cases[do.task], self.operator.head
        if do.step is Step.DECLINE and case.refused is not None:
            self._metrics.declined.labels(AVS, case.refused.code).inc()
            self._log.info("declined", task=do.task.hex(), **_words(case.refused))
        self._lanes[do.step].put(partial(self._perform, do.step, case, head))

    def _perform(self, step: Step, case: Case, head: int) -> None:
        """In a lane's thread."""
        started = time.monotonic()
        try:
            outcome = self._steps.do(step, case, head)
        except Exception as error:  # a fault of ours in one task must not end the others
            self._log.exception("unexpected", task=case.uuid.hex(), step=step)
            outcome = Undone(case.uuid, step, Reason(Code.EXECUTION, "no error", repr(error), step not in SENT))
        self._inbox.put(partial(self._conclude, step, outcome, time.monotonic() - started))

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


def seen_of(event: c.Event) -> Seen | None:
    """What an event of the market means to the machine; None for those that are not about a task."""
    if not isinstance(event, c.TaskEvent):
        return None
    block, order = event.place.block, None
    match event:
        case c.Posted():
            fact, order = Fact(State.OPEN, block), event.order
        case c.Accepted():
            fact = Fact(State.ACCEPTED, block, event.executor)
        case c.Committed():
            fact = Fact(State.COMMITTED, block, claim=event.commitment)
        case c.Revealed():
            fact = Fact(State.REVEALED, block, claim=event.outputs_root)
        case c.Closed():
            fact = Fact(State.FINAL, block)
        case c.Cancelled():
            fact = Fact(State.CANCELLED, block)
        case c.Expired():
            fact = Fact(State.EXPIRED, block)
        case c.Failed():
            fact = Fact(State.FAILED, block)
        case _:
            return None
    return Seen(event.task, fact, order)


def _words(reason: Reason) -> dict[str, str]:
    return {"reason": reason.code.value, "needed": reason.needed, "offered": reason.offered}
