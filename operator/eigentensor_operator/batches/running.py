"""Batches in a daemon: what the chain shows goes in, what must survive is written, what the machine asks for is begun.

All but the steps themselves runs in the daemon's thread, which hands in what it reads; steps have lanes of their own,
beside those of tasks, but for the device, of which there is one.
"""

import time
from collections.abc import Callable
from functools import partial

import structlog

from eigentensor.chain import Balance, Chain, Head
from eigentensor.channel import Offer
from eigentensor.channel.events import BatchEvent, ChannelEvent, PoolEvent
from eigentensor.channel.pools import Pools
from eigentensor.channel.state import BatchState
from eigentensor.dispute import deadline_of
from eigentensor.task import Event
from eigentensor.task.candidates import DRAWS
from eigentensor_operator import events as tasks
from eigentensor_operator.batches import events as facts
from eigentensor_operator.batches import machine
from eigentensor_operator.batches.case import SENT, URGENT, Case, Step
from eigentensor_operator.batches.events import Do, Fetched, Outcome, Sealed, Serving, Undone
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.batches.steps import Steps
from eigentensor_operator.batches.store import BatchStore, changed, news
from eigentensor_operator.calls.interface import Calls
from eigentensor_operator.events import Checked, RolledBack
from eigentensor_operator.lanes import Lane
from eigentensor_operator.metrics import AVS, Metrics
from eigentensor_operator.policy import Claims, Code, Policy, Reason
from eigentensor_operator.state import Operator

Put = Callable[[Callable[[], tasks.Event | None]], None]


class Running:
    """An operator's batches, and its shares of others'. `start` comes first, when the daemon is there."""

    def __init__(
        self, chain: Chain, store: BatchStore, steps: Steps, policy: Policy, metrics: Metrics, calls: Calls | None
    ) -> None:
        self._chain, self._store, self._steps, self._calls, self._metrics = chain, store, steps, calls, metrics
        self._log = structlog.get_logger()
        self._reported: dict[bytes, BatchState] = {}
        self._account: Balance | None = None
        self._put: Put | None = None
        pools = Pools(policy.parameters)
        self._fresh = Batches(policy, chain.deployment.channels_domain, pools)
        self.batches = self._fresh

    def start(self, put: Put, device: Lane, checkpoint: Head | None) -> None:
        """What was known at the block from which the chain is read on. `put` brings outcomes into the daemon's thread,
        `device` executes for tasks as well."""
        self._put = put
        block = checkpoint.number if checkpoint else 0
        self._store.roll_back(block)
        pools = self._fresh.pools
        for event in self._store.events():
            pools = pools.step(event)
        pools = pools.forgotten(self._store.forgotten())
        blank = {name: Case(name) for name in pools.batches}
        self.batches = Batches(self._fresh.policy, self._fresh.domain, pools, blank | self._store.cases())
        if self._calls is not None:
            self._calls.rolled_back(block)
        market, urgent, games = Lane("batches", 2), Lane("batches urgent", 4), Lane("batches games", 8)
        show = Lane("batches show", 4)
        self._lanes = (
            dict.fromkeys(Step, market)
            | dict.fromkeys(URGENT, urgent)
            | dict.fromkeys((Step.PLAY, Step.TIMEOUT), games)
            | dict.fromkeys((Step.SHOW, Step.JUSTIFY), show)
            # What waits for others' endpoints keeps no device from tasks.
            | dict.fromkeys((Step.FETCH, Step.JUDGE), Lane("batches fetch", 4))
            | {Step.EXECUTE: device}
        )

    def close(self) -> None:
        """Closes its journal."""
        self._store.close()

    # ---- in ----

    def observe(self, event: Event) -> None:
        """An event of the chain, whatever it is about."""
        self._feed(event)
        if self._calls is not None and isinstance(event, PoolEvent | ChannelEvent | BatchEvent):
            self._calls.observe(event)

    def rolled_back(self, block: int) -> None:
        """Nothing after `block` happened."""
        self._store.roll_back(block)
        self._reported.clear()
        self._feed(RolledBack(block))
        if self._calls is not None:
            self._calls.rolled_back(block)

    def stands(self, operator: Operator) -> None:
        """The head, of which everything was observed. Raises ChainError."""
        standing = operator.standing
        assert standing is not None
        if self._calls is not None:
            self._calls.advance(standing.block)
        if self._account is None or standing.asked == standing.block:  # a quiet block costs no question
            self._account = self._chain.channels.balance_of(operator.policy.operator)
        account = self._account
        self._feed(
            facts.Head(
                standing, account.balance, standing.cap - account.collateral, self._serving(), operator.claims,
                operator.draining, operator.testing, operator.faulty is not None, operator.slack,
            )
        )  # fmt: skip

    def _serving(self) -> dict[bytes, Serving]:
        if self._calls is None:
            return {}
        return {name: self._serving_of(self._calls, name, offer) for name, offer in self._calls.pools().items()}

    def _serving_of(self, calls: Calls, pool: bytes, offer: Offer) -> Serving:
        since = min((one.since for one in calls.concluding(pool).values()), default=None)
        return Serving(offer, calls.load(pool), calls.is_wanted(pool), calls.is_short(pool), since)

    def claims(self) -> Claims:
        """What begins on their way will lock of the stake."""
        return self.batches.claims()

    @property
    def is_at_stake(self) -> bool:
        """Whether something of this operator's may still come of any batch."""
        known = self.batches.pools.batches
        return any(self.batches.is_at_stake(case) for case in self.batches.cases.values() if case.batch in known)

    # ---- through ----

    def _feed(self, event: facts.Event) -> None:
        """One event through the machine. What it decided is on disk before anything is done about it."""
        before = self.batches
        after, actions = machine.step(before, event)
        if after is before:
            return
        gone = before.cases.keys() - after.cases.keys()
        if not isinstance(event, RolledBack):
            self._store.keep(news(before.pools, after.pools))
        if (names := changed(before, after)) or gone:
            self._store.save(after, names, gone)
        self.batches = after
        for batch in gone:
            self._steps.forget(batch)
            self._reported.pop(batch, None)
        self._report(before, after)
        for do in actions:
            self._start(do)

    def _report(self, before: Batches, after: Batches) -> None:
        for name, life in after.pools.batches.items():
            if before.pools.batches.get(name) is life or not after.is_mine(life):
                continue
            if life.state > self._reported.get(name, BatchState.NONE):
                self._reported[name] = life.state
                state = life.state.name.lower()
                self._metrics.batches.labels(AVS, state).inc()
                self._log.info(f"batch {state}", batch=name.hex(), number=life.number, block=life.since)
                if life.state is BatchState.COMMITTED:
                    self._metrics.calls.labels(AVS, "committed").inc(life.leaves)
        for name, case in after.cases.items():
            old = before.cases.get(name)
            if old is not None and old.doubt is not case.doubt and case.doubt is not None:
                what = "is wrong" if case.doubt.root is not None else "is withheld"
                what = "is outside of its offer" if case.doubt.is_outside else what
                self._log.error(f"a call {what}", batch=name.hex(), number=case.doubt.number)
            reason = case.unanswered
            if reason is not None and (old is None or old.unanswered is None or old.unanswered.code is not reason.code):
                self._log.info("share not answered", batch=name.hex(), **_words(reason))
        for name, desk in after.desks.items():
            was = before.desks.get(name)
            if desk.refused is not None and (was is None or was.refused != desk.refused):
                self._log.warning("no batch is begun", pool=name.hex(), **_words(desk.refused))

    # ---- out ----

    def _start(self, do: Do) -> None:
        batches, of_pool = self.batches, do.subject not in self.batches.cases
        run = self._steps.do_for_pool if of_pool else self._steps.do
        work = partial(run, do.step, batches, do.subject, do.number)
        if do.step is Step.HALT:
            self._log.critical("convicted: nothing more is begun", batch=do.subject.hex())
        self._lanes[do.step].put(partial(self._perform, do, work), 0 if of_pool else self._by(do))

    def _by(self, do: Do) -> int:
        """The block by which a step is to be done."""
        life = self.batches.pools.batches[do.subject]
        if do.step in (Step.PLAY, Step.TIMEOUT) and (position := life.games[do.number].position) is not None:
            return deadline_of(position)
        return life.commit_by if life.committed_at is None else life.check_by

    def _perform(self, do: Do, work: Callable[[], Outcome]) -> None:
        """In a lane's thread."""
        assert self._put is not None
        started = time.monotonic()
        try:
            outcome = work()
        except Exception as error:  # a fault of ours in one batch must not end the others
            self._log.exception("unexpected", subject=do.subject.hex(), step=do.step)
            reason = Reason(Code.EXECUTION, "no error", repr(error), do.step not in SENT)
            outcome = Undone(do.subject, do.step, reason, do.number)
        self._put(partial(self._conclude, do.step, outcome, time.monotonic() - started))

    def _conclude(self, step: Step, outcome: Outcome, seconds: float) -> tasks.Event | None:
        """Back in the daemon's thread: what is said to be done is on disk. A device that gives wrong bits is one for
        tasks as well."""
        known = self.batches.cases.get(outcome.subject)
        self._feed(outcome)
        words = {"subject": outcome.subject.hex(), "seconds": round(seconds, 3)}
        if isinstance(outcome, Undone):
            self._log.warning(f"{step} failed", **words, **_words(outcome.reason))
        elif isinstance(outcome, Fetched) and outcome.reason is not None:
            self._log.warning("a share is withheld", **words, calls=len(outcome.withheld), **_words(outcome.reason))
        elif step not in SENT:
            self._log.info(step.value, **words)
        if isinstance(outcome, Sealed) and known is not None and known.seal is None:
            life = self.batches.pools.batches[outcome.subject]
            self._metrics.calls.labels(AVS, "checked").inc(len(life.numbers(outcome.seal.index // DRAWS)))
        return Checked(outcome.reason) if isinstance(outcome, Undone) and outcome.reason.code is Code.DEVICE else None


def _words(reason: Reason) -> dict[str, str]:
    return {"reason": reason.code.value, "needed": reason.needed, "offered": reason.offered}
