"""Fixed values for the screens of operators, of claims after games, and of the planner."""

from datetime import UTC, datetime
from typing import cast

from eigentensor.chain import Challenge, Conviction, GameView, Mined, Status, Step, Task
from eigentensor.cluster.log import Entry, Event
from eigentensor.dispute import Phase, Position
from eigentensor.economics import WAD
from eigentensor.graph import GraphBuilder
from eigentensor.graph.lower import lower
from eigentensor.planner.blocks import blocks
from eigentensor.planner.measure import CallCost, Cost, Meter
from eigentensor.planner.paths import Path
from eigentensor.planner.plan import Plan, PlannedBlock, Whole
from eigentensor.planner.sample import sample_of
from eigentensor.planner.search import Candidate, Search
from eigentensor.program.cost import Needs
from eigentensor.task import Cause, Opened, Place, State
from eigentensor_client.claims import Claim, Facts, Message
from eigentensor_cluster.schemas import (
    ClusterStatus,
    ClusterTrace,
    SegmentStatus,
    SessionStatus,
    TracedInstruction,
    WorkerStatus,
)
from eigentensor_operator import onboarding
from eigentensor_operator.alarms import Alarm
from eigentensor_operator.batches.store import BatchLine
from eigentensor_operator.bench import Measured, Timing
from eigentensor_operator.case import Role
from eigentensor_operator.config import Settings
from eigentensor_operator.earnings import Earned
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.quoting import prices
from eigentensor_operator.report import OperatorBatch, OperatorTask, Report, raised
from eigentensor_operator.store import Line
from support.screens.values import ALICE, BOB, CHALLENGER, DEPLOYMENT, ORDER, UUID

# ---- What is due after games ----

_PLACE = Place(140, 0, b"\x0e" * 32, b"\x0f" * 32)
_POSITION = Position(UUID, ALICE, CHALLENGER, Phase.CALL, 140, 57, 60)
_FACTS = Facts(
    order=ORDER,
    uuid=UUID,
    task=Task(ALICE, State.CONVICTED, 105, 170, ORDER.exec, b"\x0c" * 32, 113, 9, 0, 0, 0),
    game=GameView(Opened(_PLACE, UUID, 3, CHALLENGER, _POSITION), (), None),
    bond=Challenge(CHALLENGER, 0, False),
    conviction=Conviction(Cause.VERDICT, BOB, False),
    answers_by=230,
    answers={},
    lock_end=900,
)
REFUND = Claim(Message.REFUND, _FACTS, 3, WAD // 10)
SLASH = Claim(Message.SLASH, _FACTS, 3, WAD // 100, first=231, last=900)
MINED = Mined(b"\x1a" * 32, 240, b"\x1b" * 32, 51_234, ())

# ---- An operator ----

_TIMINGS = (Timing("fast", Needs(10**9, 8 * 10**6), 1.5, 16, 4.5), Timing("slow", Needs(2 * 10**8, 10**9), 2.6, 4, 3.2))
MEASURED = Measured("CPU", 0.5, _TIMINGS, 2e8, 1.5e8)
PRICES = prices(MEASURED, DEPLOYMENT, Settings(block_seconds=1.0), 10**9)
LATE = Reason(Code.LATE, "a commitment by block 113", "block 114")
REPORT = Report(
    network="local", operator=ALICE, symbol="TETH", device="CPU", balance=10 * WAD, collateral=WAD // 4, cap=WAD,
    bonds=WAD // 10, stake=10 * WAD, free=9 * WAD, locked=WAD, stake_cap=2 * WAD, seats=4, other_seats=20, signer=BOB,
    member=True, draining=False,
    today=Earned("2026-11-22T00:00:00+00:00", 2, 3 * WAD // 100, 1, WAD // 1000, 0, WAD // 20),
    week=Earned("2026-11-15T09:00:00+00:00", 40, 6 * WAD // 10, 9, 9 * WAD // 1000, WAD // 10, WAD // 20),
    alarms=raised({Alarm.QUEUED: "1 TETH of stake waits to be withdrawn"}),
    tasks=tuple(OperatorTask.of(line) for line in (
        Line(UUID[::-1], State.REVEALED, Role.EXECUTOR, 0, (3,), False),
        Line(UUID, State.FAILED, Role.EXECUTOR, 0, (), True, dropped=LATE),
        Line(bytes(reversed(range(32))), State.COMMITTED, Role.VERIFIER, WAD // 10, (), False),
    )),
    call_balance=WAD, call_collateral=WAD // 100,
    batches=tuple(OperatorBatch.of(line) for line in (
        BatchLine(UUID, bytes(range(32)), 1, "final", True, 1_200, WAD // 50, False),
        BatchLine(UUID[::-1], bytes(range(32)), 2, "begun", True, 0, 0, True),
        BatchLine(UUID, bytes(reversed(range(32))), 7, "committed", False, 10_000, WAD // 10, True),
    )),
)  # fmt: skip
PLAN = onboarding.Plan(
    ALICE, BOB, 240, 12.0, datetime(2026, 11, 22, 9, tzinfo=UTC),
    (
        Step("operator", "registered with EigenLayer", Status.DONE),
        Step("stake", "10 TETH at stake", Status.DONE),
        Step("allocation", "all of it at risk here", Status.WAITING, until=1_240),
        Step("seats", "10 seats", Status.WAITING, why="when the allocation is there"),
        Step("prices", "at least 0.01 TETH for a task", Status.TODO),
    ),
    20,
)  # fmt: skip

# ---- What `optimise` found ----

_BUILDER = GraphBuilder()
_GRAPH = _BUILDER.graph(_BUILDER.input("x", 8) + _BUILDER.input("y", 8))
_MADE = lower(_GRAPH)


def _cost(microseconds: float, *, measured: bool = True) -> Cost:
    return Cost((CallCost(0, microseconds / 1e6, measured),), 0.0)


def _candidate(rules: tuple[str, ...], cost: Cost, error: float | None, verdict: str = "") -> Candidate:
    return Candidate(Path(_GRAPH, rules, b""), _MADE, cost, error, verdict)


_ORIGINAL, _CHOSEN = _candidate((), _cost(12.5), 1.1e-7), _candidate(("distribute", "tile 16"), _cost(4.0), 2.2e-6)
_SEARCH = Search(_GRAPH, cast(Meter, None), sample_of(_GRAPH), 1e-5)  # it only holds what was found
_SEARCH.candidates += [
    _ORIGINAL,
    _CHOSEN,
    _candidate(("store in float16",), _cost(2.5), 3.0e-3, "refused: errs too much"),
    _candidate(("factor",), _cost(9.0, measured=False), None),
]
(_BLOCK,) = blocks(_GRAPH)
OPTIMISED = Plan(
    [PlannedBlock(_BLOCK, _SEARCH, _CHOSEN)],
    Whole(_GRAPH, _MADE, _CHOSEN.cost, 2.2e-6),
    Whole(_GRAPH, _MADE, _ORIGINAL.cost, 1.1e-7),
    planning=3.2,
    checking=0.4,
)

CLUSTER = ClusterStatus(
    f"cluster://gpu.example:7700/{'5e' * 32}", 4711, 5400.0, False, 3,
    (WorkerStatus("w1", "gpu-1", "CPU", 2, 1, 12_000, 300.0), WorkerStatus("w2", "gpu-2", "CPU", 2, 2, 8_000, 200.0)),
    (
        SessionStatus(1, "alice", 12, 3 << 20, 4, 2, 15_000, 375.5, 0.01),
        SessionStatus(2, "bob", 0, 0, 0, 1, 5_000, 124.5, -0.2, 30.0, -1.5),
    ),
    (
        SegmentStatus("5e" * 32, 12_000, 310.2, 48 << 20, 0),
        SegmentStatus("a7" * 32, 40, 180.6, 96 << 20, 880 << 20),
    ),
)  # fmt: skip
CLUSTER_TRACE = ClusterTrace(
    3,
    (
        TracedInstruction(2, "DEFINE", "done", (), 0, 0, came=0.001204, size=5122),
        TracedInstruction(3, "PUT", "done", (), 0, 0, came=0.001377, size=1904),
        TracedInstruction(4, "RUN", "done", ("w1", "w2"), 2, 256, "5e1c9a03", 0.004812, 0.004903, 0.006127, 96),
        TracedInstruction(5, "RUN", "failed", ("w1",), 1, 0, "77aa01c4", 0.004831, 0.00495, 0.00505, None, "no memory"),
        TracedInstruction(6, "GET", "waits", (), 0, 0, came=0.004902),
    ),
    "alice",
)  # fmt: skip
CLUSTER_LOG = [
    Entry(time=0.004812, sequence=42, event=Event.RECV, who="CLIENT 1", what="RUN", detail={"frame": "7"}),
    Entry(time=0.004903, sequence=43, event=Event.WORKER_SEND, who="WORKER w1", what="5e1c", detail={"segment": "17"}),
    Entry(
        time=0.006127, sequence=44, event=Event.WORKER_RECV, who="WORKER w1", what="5e1c", size=96,
        detail={"segment": "17"},
    ),
]  # fmt: skip
