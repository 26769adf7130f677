"""What each verb prints, from fixed values, as text files: `scripts/screens` writes them, a test compares."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np

from eigentensor.chain import Reader
from eigentensor.chain.units import GWEI
from eigentensor.cluster.log import format_entry
from eigentensor.economics import WAD, tuning
from eigentensor.economics.agents import AGENTS
from eigentensor.errors import NobodyAccepted
from eigentensor.pace import Pace
from eigentensor.receipt import prove
from eigentensor.runtime.doctor import Finding
from eigentensor.runtime.doctor import State as FindingState
from eigentensor.runtime.tuning.tuner import Line
from eigentensor.task import view
from eigentensor.task.objects import Files
from eigentensor_aggregator.scrub import Found, ScrubReport
from eigentensor_aggregator.scrub import printed as shown_scrub
from eigentensor_aggregator.watch.machine import Verdict
from eigentensor_aggregator.watch.service import printed
from eigentensor_aggregator.watch.watcher import WatchReport
from eigentensor_client import games, receipts
from eigentensor_client.claims import Claimed
from eigentensor_client.cli import report
from eigentensor_client.examples import examples
from eigentensor_client.games import Here
from eigentensor_client.history import History
from eigentensor_client.orders import Terms, plan
from eigentensor_client.remedies import advice_of, opinions_of
from eigentensor_client.results import TaskResult
from eigentensor_client.schemas.networks import Keystores, ListedNetwork, Wallet
from eigentensor_client.screen import Screen, console
from eigentensor_client.stages import failure
from eigentensor_client.task_view import TaskView
from eigentensor_client.verbs import (
    challenge,
    channel,
    doctor,
    init,
    keystores,
    network,
    operators,
    optimise,
    outputs,
    program,
    session,
    tune,
    wallet,
)
from eigentensor_client.verbs.planned import plan_lines
from eigentensor_client.verbs.show import Show
from eigentensor_cluster.keeper import lines as cluster_lines
from eigentensor_cluster.trace import lines as trace_lines
from eigentensor_economics import batch_reports, channels, reports
from eigentensor_economics import cli as economics
from eigentensor_economics.batch_tuning import Times, tune_offer
from eigentensor_economics.lies import BRIBING, LAUNDERING, UNBRIBED
from eigentensor_economics.lies import estimate as estimate_lies
from eigentensor_economics.options import Asked, Batch, Sampled, World
from eigentensor_economics.payoffs import Payoffs
from eigentensor_economics.simulation import estimate
from eigentensor_local import cli as devnet
from eigentensor_operator.options import show as show_part
from eigentensor_operator.quoting import speed
from eigentensor_serve import cli as deploy
from eigentensor_serve.apps.registry import App
from eigentensor_serve.rows import Rows
from support.screens import calls
from support.screens import values as v
from support.screens import values_parts as parts
from support.screens.commands import on_path
from support.vectors import receipts as receipt_vectors

FOLDER = Path(__file__).parents[2] / "screens"
WIDTHS = (80, 120)
PACE = Pace(12.0)
SHOW = Show(v.NETWORK, lambda: PACE)
RESULT = TaskResult(v.FINAL, v.ROOT, {"output": np.array([[0.1, -3, np.nan, 1e9], [np.inf, 0, 0, 0]], np.float32)})
FILES: Files = {"outputs": f"{v.FINAL.uuid[:10]}.safetensors", "states": None, "receipt": "task.receipt"}
WALLET: Wallet = {
    "schema": "eigentensor.wallet/1",
    "address": v.CLIENT, "key": "client.json ($EIGENTENSOR_KEYSTORE)", "coins": str(3 * WAD // 2),
    "tokens": str(100 * WAD), "balance": str(WAD // 4), "held": "0",
}  # fmt: skip
KEYSTORES: Keystores = {
    "schema": "eigentensor.keystores/1",
    "folder": "keystores",
    "keystores": [
        {"name": "alice", "file": "keystores/alice.json", "address": v.ALICE, "used": True},
        {"name": "old", "file": "keystores/old.json", "used": False, "wrong": "is no V3 keystore"},
    ],
    "pays": "alice, which $EIGENTENSOR_KEYSTORE names",
}
CHOSEN = {
    "schema": "eigentensor.network/1",
    "name": "local", "chosen_by": "the default", "file": "networks/local.json", "rpc_url": v.NETWORK.rpc_url,
    "gateway_url": v.NETWORK.gateway_url, "block": 240, "operators": 3, "key": "anvil's published key 1",
    "deployment": v.DEPLOYMENT.to_json(),
}  # fmt: skip
NETWORKS: list[ListedNetwork] = [
    {"name": "local", "file": "local.json", "rpc_url": v.NETWORK.rpc_url, "chain_id": 31337, "answers": True},
    {"name": "old", "file": "old.json", "wrong": "old.json does not describe a network"},
]


def _plan(screen: Screen) -> None:
    terms, p = Terms(v.TERMS.max_price), v.DEPLOYMENT.parameters
    funds = {"balance": WAD // 4, "tokens": 100 * WAD, "gas_price": GWEI}
    planned = plan(v.WORK, terms, p, operators=v.OPERATORS, **funds)
    screen.result("eigentensor.plan/1", planned.to_json(), *plan_lines(planned, SHOW.amount, PACE))


def _task(task: Any) -> Callable[[Screen], None]:
    return lambda screen: screen.result("eigentensor.task/1", SHOW.task(task), *SHOW.task_lines(task))


def _explain(task: TaskView) -> Callable[[Screen], None]:
    response = v.EXPLAINED | {"state": task.state.name.lower()}
    lines = SHOW.explanation(task, response)
    return lambda screen: screen.result("eigentensor.explanation/1", SHOW.explained(task, response), *lines)


def _ps(screen: Screen) -> None:
    tasks = [v.OPEN, v.RESULT, v.FINAL, v.WRONG]
    screen.result("eigentensor.tasks/1", {"tasks": [view.task(v.OPEN.life, v.OPEN.block)]}, SHOW.tasks_table(tasks))


def _logs(screen: Screen) -> None:
    for event in v.FINAL.events:
        screen.result("eigentensor.event/1", {"task": v.FINAL.uuid, **view.event(event)}, SHOW.event_line(event))


def _session(screen: Screen) -> None:
    order = v.ORDER
    history = History(v.DEPLOYMENT.domain, v.CLIENT, order.program, order.weights, order.states, v.TERMS)
    history = history.asks(order, {"position": 0}).answered(b"\x0a" * 32, b"\x0b" * 32).finals(0)
    session.show_history(screen, history)


def _game(screen: Screen) -> None:
    here = Here(v.CHALLENGER, SHOW.amount, PACE)
    screen.result(v.GAME["schema"], v.GAME, *games.drawn(v.GAME, here))


def _doctor(screen: Screen) -> None:
    findings = [
        Finding("program", "clang", FindingState.OK, "version 19"),
        Finding("device", "CPU", FindingState.OK, "computes as the reference does"),
        Finding("device", "CL", FindingState.ABSENT, "no platform answers", "Install a driver of OpenCL."),
    ]
    doctor.show_findings(screen, findings)


def _tune(screen: Screen) -> None:
    lines = [Line(0, 3, "(99, 32)", 4e-5, 2e-5, "tile 4×16", 12, 90), Line(1, 1, "(99, 10)", 1e-5, 1e-5, "", 8, 8)]
    tune.show_tuning(screen, "CPU", lines, 1234, Path("measurements.sqlite"))


def _simulate(screen: Screen) -> None:
    x = reports.situation_of("local", "0", World(), Asked())
    estimates = [estimate(x, AGENTS[name], tasks=1000, seed=0) for name in ("honest", "lazy")]
    shown = reports.simulation_lines(x, estimates)
    screen.result("eigentensor.economics-simulation/1", reports.simulation(x, estimates), *shown)


def _terms(screen: Screen) -> None:
    x = reports.situation_of("mainnet", "10", World())
    tuned = tuning.tune(x, 1.0, exec_=300, lock=tuning.Lock(), rates=[0.05, 0.2, 1.0])
    economics.show_terms(screen, 1.0, tuned, tuning.windows(x.parameters, 300, 1_800, 100_800), 1_800)


def _lies(screen: Screen) -> None:
    x = batch_reports.batch_of("local", "10", World(), Batch(channels=10), Sampled())
    channels.show_lies(screen, x, estimate_lies(x, [LAUNDERING, BRIBING], batches=50), 50, 0)


def _offers(screen: Screen) -> None:
    x = batch_reports.batch_of("mainnet", "10", World(), Batch(channels=10))
    times = Times(exec=300, epoch=300)
    offers = tune_offer(x, 1.0, UNBRIBED, times=times, lock=tuning.Lock(), rates=[0.01, 0.05, 1.0])
    channels.show_offers(screen, 1.0, 59_244, offers)


def _claims(screen: Screen) -> None:
    waits = Claimed(parts.SLASH, waits="block 230", ahead=40)
    claims = [Claimed(parts.REFUND, parts.MINED), waits, Claimed(parts.SLASH)]
    challenge.show_claims(screen, Here(v.CHALLENGER, SHOW.amount, PACE), claims, WAD // 4, withdrawn=False)


def _init(screen: Screen) -> None:
    init.show_examples(screen, examples())
    init.show_example(screen, chosen := examples()[0], Path("mine"), [Path("mine", place) for place in chosen.files])


def _watch(screen: Screen) -> None:
    show = printed(screen.as_json)
    show(WatchReport(140, v.UUID, Verdict.DIFFERS, "another root than the one that was revealed", (3,)))
    show(WatchReport(141, v.UUID[::-1], None, "not looked at: too many operations"))


def _aggregator_scrub(screen: Screen) -> None:
    show = shown_scrub(screen.as_json)
    lost = f"piece 2 of blob {v.UUID.hex()} is wrong; nobody has it"
    show(ScrubReport(v.UUID, Found.LOST, lost))
    show(ScrubReport(v.UUID[::-1], Found.FETCHED, "its bytes are gone; https://gateway.example has it"))


def _operator_bench(screen: Screen) -> None:
    part = parts.PRICES.to_json(speed(parts.PRICES.measured), written=False)
    show_part(part, parts.PRICES.lines(), as_json=screen.as_json)


def _operator_status(screen: Screen) -> None:
    show_part(parts.REPORT.to_json(), parts.REPORT.lines(), as_json=screen.as_json)


def _operator_up(screen: Screen) -> None:
    calls_nobody = cast(Reader, None)  # no step of this plan has a call
    show_part(parts.PLAN.to_json(calls_nobody), parts.PLAN.lines(), as_json=screen.as_json)


def _cluster_status(screen: Screen) -> None:
    show_part(parts.CLUSTER.to_json(), cluster_lines(parts.CLUSTER), as_json=screen.as_json)


def _cluster_trace(screen: Screen) -> None:
    show_part(parts.CLUSTER_TRACE.to_json(), trace_lines(parts.CLUSTER_TRACE), as_json=screen.as_json)


def _cluster_log(screen: Screen) -> None:
    for entry in parts.CLUSTER_LOG:
        show_part(entry.to_json(), [format_entry(entry)], as_json=screen.as_json)


def _devnet(screen: Screen) -> None:
    parties = [("operator-1", v.ALICE), ("liar-1", v.BOB)]
    calls = "http://127.0.0.1:8900"
    output = devnet.shown(v.NETWORK, Path("networks/local.json"), Path("logs"), v.CLIENT, parties, 1.0, 1, calls)
    screen.result("eigentensor.devnet/1", *output)


def _payoffs(screen: Screen) -> None:
    matrix = Payoffs(*map(Fraction, ("1", "0.6", "10", "0.01", "0.1", "0.01", "0.95")))
    screen.result("eigentensor.economics-payoffs/1", reports.matrix(matrix), *reports.matrix_lines(matrix))


def _receipt_check(screen: Screen) -> None:
    receipt = receipt_vectors.load()["checked"]
    checked = receipts.Checked(receipt, tuple(prove(receipt)))
    screen.result("eigentensor.receipt-check/1", checked.to_json(), *checked.lines())


def _call_receipt(screen: Screen) -> None:
    checked = calls.checked()
    screen.result("eigentensor.call-receipt-check/1", checked.to_json(), *checked.lines())


def _channel_watch(screen: Screen) -> None:
    for seen in calls.SEEN:
        channel.say_seen(screen, calls.FACTS["channel"], seen)


def _app(screen: Screen) -> None:
    app = App("layer", 2, "2026-11-22T09:00:00Z", "0a" * 32, "0b" * 32, rows=Rows(2, ("x",), ("output",)))
    price = "nothing: this machine executes it"
    deploy.show_deployed(screen, app, v.WORK.program, price, "http://127.0.0.1:8700", tokens=False)


def _run(screen: Screen) -> None:
    fields = outputs.result_object(SHOW, v.WORK.program, RESULT, FILES)
    screen.result(
        fields["schema"], fields, *SHOW.task_lines(v.FINAL), *outputs.result_lines(v.WORK.program, RESULT, FILES)
    )


def _error(screen: Screen) -> None:
    p = v.DEPLOYMENT.parameters
    advice = advice_of(opinions_of(v.EXPLAINED), v.ORDER, p, SHOW.amount, over=True)
    error = failure(v.EXPIRED, "final", SHOW.amount, advice)
    assert isinstance(error, NobodyAccepted)
    report(error, as_json=screen.as_json)


SCREENS: dict[str, Callable[[Screen], None]] = {
    "init": _init,
    "plan": _plan,
    "run": _run,
    "ps": _ps,
    "logs": _logs,
    "task-open": _task(v.OPEN),
    "task-result": _task(v.RESULT),
    "task-convicted": _task(v.WRONG),
    "task-explain": _explain(v.OPEN),
    "task-expired": _explain(v.EXPIRED),
    "session": _session,
    "challenge-list": lambda screen: screen.result(
        "eigentensor.challenges/1", {"challenges": [v.LISTED_GAME]}, challenge.games_table([v.LISTED_GAME])
    ),
    "challenge-show": _game,
    "program": lambda screen: program.show_program(screen, v.WORK.program),
    "doctor": _doctor,
    "tune": _tune,
    "economics-simulate": _simulate,
    "devnet": _devnet,
    "wallet": lambda screen: screen.result("eigentensor.wallet/1", WALLET, wallet.wallet_facts(WALLET, SHOW.amount)),
    "wallet-list": lambda screen: screen.result(KEYSTORES["schema"], KEYSTORES, *keystores.keystore_lines(KEYSTORES)),
    "network-list": lambda screen: screen.result(
        "eigentensor.networks/1", {"networks": NETWORKS}, network.networks_table(NETWORKS)
    ),
    "network-show": lambda screen: screen.result("eigentensor.network/1", CHOSEN, network.network_facts(CHOSEN)),
    "operator-list": lambda screen: screen.result(
        "eigentensor.operators/1",
        {"operators": v.OPERATORS},
        operators.operators_table(v.OPERATORS, v.DEPLOYMENT, PACE),
    ),
    "challenge-claim": _claims,
    "optimise": lambda screen: optimise.show_plan(screen, parts.OPTIMISED, "CPU", 1e-5),
    "economics-tune": _terms,
    "economics-plot": lambda screen: economics.show_pictures(screen, {"payoffs": "pictures/payoffs.png"}),
    "operator-up": _operator_up,
    "operator-bench": _operator_bench,
    "operator-status": _operator_status,
    "cluster-status": _cluster_status,
    "cluster-log": _cluster_log,
    "cluster-trace": _cluster_trace,
    "watch": _watch,
    "aggregator-scrub": _aggregator_scrub,
    "economics-payoffs": _payoffs,
    "economics-channels-simulate": _lies,
    "economics-channels-tune": _offers,
    "receipt-check": _receipt_check,
    "call-receipt": _call_receipt,
    "channel-list": lambda screen: channel.show_channels(screen, [calls.FACTS], SHOW.amount),
    "channel-show": lambda screen: channel.show_channel(screen, calls.FACTS, SHOW.amount),
    "channel-watch": _channel_watch,
    "app": _app,
    "error": _error,
}


def drawn(name: str) -> str:
    """What people see in terminals of both widths without colour, and what programs read."""
    texts = [f"── {width} columns\n{_printed(name, width)}" for width in WIDTHS]
    objects = [json.loads(line) for line in _printed(name, None).splitlines() if line.startswith("{")]
    json_text = "\n".join(json.dumps(one, indent=1, ensure_ascii=False) for one in objects)
    return "\n".join((*texts, f"── --json\n{json_text}\n"))


def _printed(name: str, width: int | None) -> str:
    """As JSON where no width is said."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        screen = Screen(as_json=width is None, talk=console(file=text), data=console(file=text, width=width))
        SCREENS[name](screen)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def main() -> None:
    on_path()
    FOLDER.mkdir(exist_ok=True)
    for stale in {path.stem for path in FOLDER.glob("*.txt")} - SCREENS.keys():
        (FOLDER / f"{stale}.txt").unlink()
    for name in SCREENS:
        (FOLDER / f"{name}.txt").write_text(drawn(name))


if __name__ == "__main__":
    main()
