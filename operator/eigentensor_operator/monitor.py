"""What the operator's people see: logs, metrics, alarms."""

from collections import Counter
from collections.abc import Iterable, Mapping

import structlog

from eigentensor import task as t
from eigentensor.chain import Chain
from eigentensor.task import State
from eigentensor_operator.alarms import FIXES, Alarm, alarms_of
from eigentensor_operator.case import SENT, Role, Step
from eigentensor_operator.events import Do, Outcome, Undone
from eigentensor_operator.metrics import AVS, Metrics, name_of
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.state import Operator, Turn

PACE = 64  # blocks after which their pace is looked at again


class Monitor:
    """Reports a thing once. `reported` are the states of own tasks that were reported before a restart."""

    def __init__(self, chain: Chain, metrics: Metrics, reported: Mapping[bytes, State]) -> None:
        self._chain = chain
        self._metrics = metrics
        self._reported = dict(reported)
        self._log = structlog.get_logger()
        self._token = chain.deployment.token_symbol
        self._ended: Counter[State] = Counter()
        self._short: frozenset[Turn] = frozenset()
        self._capped = False
        self._paced = 0
        self.alarms: Mapping[Alarm, str] = {}

    @property
    def is_pressed(self) -> bool:
        """Whether a clock is short, or gas costs more than its moves may pay."""
        return bool(self._short) or self._capped

    # ---- What happens ----

    def rolled_back(self, block: int) -> None:
        """Blocks after `block` are gone: what comes again is reported again."""
        self._log.warning("reorganisation", back_to=block)
        self._reported.clear()

    def forgotten(self, tasks: Iterable[bytes]) -> None:
        """Nothing more can come of these."""
        for task in tasks:
            self._reported.pop(task, None)

    def reached(self, event: t.TaskEvent, state: State) -> None:
        """An own task's step."""
        if state <= self._reported.get(event.task, State.NONE):
            return
        self._reported[event.task] = state
        self._metrics.tasks.labels(AVS, state.name.lower()).inc()
        self._log.info(state.name.lower(), task=event.task.hex(), block=event.place.block)
        if isinstance(event, t.Closed):
            self._metrics.fees.labels(AVS, self._token).inc(event.paid)
        if state.is_terminal:
            self._ended[state] += 1
            self._metrics.score.labels(AVS).set(100 * self._ended[State.FINAL] / self._ended.total())

    def happened(self, event: t.TaskEvent, operator: Operator) -> None:
        """Something else about a task, if this operator has a part in it."""
        case = operator.cases.get(event.task)
        if case is None or not (role := operator.role_in(case)):
            return
        name = name_of(type(event))
        details = {k: v for k, v in event.arguments().items() if k not in ("task", "position", "data", "leaves")}
        if isinstance(event, t.Opened | t.Moved):
            details["phase"] = event.position.phase.name.lower()
        self._log.info(name, task=event.task.hex(), role=role.value, block=event.place.block, **details)
        self._metrics.incidents.labels(AVS, name).inc()
        if isinstance(event, t.Slashed) and operator.mine(case):
            self._metrics.slashed.labels(AVS, self._token).inc(self._chain.stake.worth_of(event.shares))

    # ---- Where it stands ----

    def stands(self, operator: Operator, games: int = 0, short: Iterable[Turn] = ()) -> None:
        """Once a block. Raises the alarms: what costs stake or a bond unless somebody sees to it. So many `games` about
        paid calls are played as well, and these turns in them are `short` of time."""
        m, standing = self._metrics, operator.standing
        assert standing is not None
        m.balance.labels(AVS, self._token).set(standing.balance)
        m.collateral.labels(AVS, self._token).set(standing.collateral)
        m.stake_free.labels(AVS, self._token).set(standing.stake)
        m.stake_locked.labels(AVS, self._token).set(standing.locked)
        m.seats.labels(AVS).set(standing.seats)
        m.bonds.labels(AVS, self._token).set(sum(map(operator.bond_of, operator.cases.values())))
        m.games.labels(AVS).set(sum(1 for _ in operator.games()) + games)
        m.head.labels(AVS).set(standing.block)
        self._warn(operator, short)
        self._report_alarms(alarms_of(operator.policy, standing))
        if standing.block >= self._paced + PACE:
            self._paced, seconds = standing.block, self._chain.node.block_seconds()
            m.pace.labels(AVS).set(seconds)
            if 2 * seconds < (expected := operator.policy.block_seconds):
                self._log.warning("blocks are fast", seconds=seconds, expected=expected, fix="Lower BLOCK_SECONDS.")

    def _warn(self, operator: Operator, beside: Iterable[Turn]) -> None:
        short, capped = frozenset((*operator.short_clocks(), *beside)), self._chain.sender.fees.capped
        for turn in short - self._short:
            left = turn.by - operator.head
            self._log.error("clock is short", task=turn.task.hex(), game=turn.game or None, blocks_left=left)
        if capped and not self._capped:
            self._log.error("gas costs more than is allowed", fix="Allow more, or games may be lost by the clock.")
        self._short, self._capped = short, capped
        self._metrics.short.labels(AVS).set(len(short))
        self._metrics.capped.labels(AVS).set(capped)

    def _report_alarms(self, alarms: Mapping[Alarm, str]) -> None:
        """What EigenLayer did, or its owners, to the stake that backs every task."""
        for alarm, text in alarms.items():
            if self.alarms.get(alarm) != text:
                log = self._log.warning if alarm in (Alarm.QUEUED, Alarm.DEALLOCATING) else self._log.error
                log("stake alarm", alarm=alarm.value, what=text, fix=FIXES[alarm])
        for alarm in self.alarms.keys() - alarms.keys():
            self._log.info("stake alarm is over", alarm=alarm.value)
        self.alarms = alarms
        for alarm in Alarm:
            self._metrics.alarms.labels(AVS, alarm).set(alarm in alarms)

    # ---- What it decides and does ----

    def decided(self, before: Operator, after: Operator) -> None:
        """What is given up, and why."""
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
        self._metrics.selftest.labels(AVS).set(after.faulty is None and not after.testing)

    def begun(self, do: Do, refused: Reason | None) -> None:
        """A step whose beginning is news: a refusal, a conviction."""
        if do.step is Step.DECLINE and refused is not None:
            self._metrics.declined.labels(AVS, refused.code).inc()
            self._log.info("declined", task=do.task.hex(), **_words(refused))
        if do.step is Step.HALT:
            self._log.critical("convicted: nothing more is accepted", task=do.task.hex(), role=Role.EXECUTOR.value)

    def concluded(self, step: Step, outcome: Outcome, seconds: float) -> None:
        """The end of a step, after so many seconds."""
        task = outcome.task.hex()
        self._metrics.phase.labels(AVS, step).observe(seconds)
        if isinstance(outcome, Undone):
            self._metrics.failures.labels(AVS, step).inc()
            log = self._log.info if step is Step.ACCEPT else self._log.warning  # somebody else being faster is no fault
            log(f"{step} failed", task=task, seconds=round(seconds, 3), **_words(outcome.reason))
        elif step not in SENT:  # those are reported when the chain shows them
            self._log.info(step.value, task=task, seconds=round(seconds, 3))


def _code(reason: Reason | None) -> Code | None:
    return reason.code if reason else None


def _words(reason: Reason) -> dict[str, str]:
    return {"reason": reason.code.value, "needed": reason.needed, "offered": reason.offered}
