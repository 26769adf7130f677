"""What an operator tells Prometheus. Every series exists from the start, at zero."""

import re

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from eigentensor.channel.state import BatchState
from eigentensor.task import (
    Answered,
    BondReturned,
    Challenged,
    Demanded,
    Ended,
    Event,
    Exposed,
    GameEnded,
    Moved,
    Opened,
    Revealed,
    Settled,
    Shown,
    Slashed,
    State,
)
from eigentensor.version import VERSION
from eigentensor_operator.alarms import Alarm
from eigentensor_operator.case import Step
from eigentensor_operator.policy import Code

AVS = "eigentensor"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_CODES = tuple(Code)
#: How batches of paid calls stand, and an operator's part in their calls.
BATCHES, CALLS = tuple(state.name.lower() for state in BatchState), ("committed", "checked")
#: What is logged and counted of tasks in which the operator has a part, beside their steps from state to state.
INCIDENTS = (
    Answered, Exposed, Revealed, Challenged, GameEnded, Demanded, Shown, Settled, BondReturned, Slashed, Opened, Moved,
    Ended,
)  # fmt: skip


def name_of(kind: type[Event]) -> str:
    """An event's name in logs and metrics: game_ended."""
    return re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


class Metrics:
    """EigenLayer's names begin with `eigen_`, ours with `et_`. No task and no stranger's address is ever a label."""

    def __init__(self, token: str) -> None:
        self.registry = CollectorRegistry()
        self.fees = self._counter("eigen_fees_earned", "Prices of final tasks, in wei.", token=[token])
        self.slashed = self._counter("eigen_slashing_incurred", "Stake slashed, in wei.", token=[token])
        self.balance = self._gauge("eigen_balance_total", "Free balance in the market, in wei.", token=[token])
        self.collateral = self._gauge("et_collateral_wei", "Balance held for tasks.", token=[token])
        self.stake_free = self._gauge("et_stake_free_wei", "Stake that tasks can still lock.", token=[token])
        self.stake_locked = self._gauge("et_stake_locked_wei", "Stake locked for accepted tasks.", token=[token])
        self.bonds = self._gauge("et_bonds_wei", "Balance held for answers.", token=[token])
        self.seats = self._gauge("et_seats", "Seats from which verifiers are drawn.")
        self.games = self._gauge("et_games_open", "Games that this operator plays.")
        self.short = self._gauge("et_clocks_short", "Own moves and demands with less than a third of the clock left.")
        self.capped = self._gauge("et_fee_capped", "1 while gas costs more than is allowed.")
        self.alarms = self._gauge("et_stake_alarm", "1 while something is wrong with the stake.", alarm=list(Alarm))
        for alarm in Alarm:
            self.alarms.labels(AVS, alarm)
        self.score = self._gauge("eigen_performance_score", "Share of accepted tasks finished, 0 to 100.")
        self.tasks = self._counter(
            "et_tasks", "Own tasks by the state they reached.", state=[s.name.lower() for s in State]
        )
        self.declined = self._counter("et_tasks_declined", "Declines by reason.", reason=_CODES)
        self.dropped = self._counter("et_tasks_dropped", "Accepted tasks given up, by reason.", reason=_CODES)
        self.unanswered = self._counter(
            "et_checks_unanswered", "Own draws without an answer, by reason.", reason=_CODES
        )
        self.batches = self._counter(
            "et_batches", "Own batches of paid calls by the state they reached.", state=BATCHES
        )
        self.calls = self._counter("et_calls", "Paid calls: committed as executor, checked as verifier.", part=CALLS)
        self.incidents = self._counter(
            "et_incidents", "What happened to own tasks and answers.", event=tuple(map(name_of, INCIDENTS))
        )
        self.failures = self._counter("et_step_failures", "Steps that failed.", phase=tuple(Step))
        self.selftest = self._gauge("et_determinism_selftest_ok", "1 while the device is trusted.")
        self.pace = self._gauge("et_block_seconds", "Time between blocks of late.")
        self.head = self._gauge("et_chain_head_block", "The newest block that was read.")
        self.lag = self._gauge("et_rpc_head_lag_seconds", "Time since the chain was read.")
        self._gauge("et_build_info", "1, with the version.", version=[VERSION]).labels(AVS, VERSION).set(1)
        self.phase = Histogram(
            "et_task_phase_seconds",
            "Duration of a step.",
            ["avs_name", "phase"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        for step in Step:
            self.phase.labels(AVS, step)

    def _counter(self, name: str, text: str, **labels: list[str] | tuple[str, ...]) -> Counter:
        counter = Counter(name, text, ["avs_name", *labels], registry=self.registry)
        for value in next(iter(labels.values())):
            counter.labels(AVS, value)
        return counter

    def _gauge(self, name: str, text: str, **labels: list[str]) -> Gauge:
        gauge = Gauge(name, text, ["avs_name", *labels], registry=self.registry)
        gauge.labels(AVS, *(values[0] for values in labels.values()))
        return gauge
