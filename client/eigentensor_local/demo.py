"""The demo: checked tasks, a lie and its conviction, a silent operator, on a local network. Leaves nothing behind."""

import os
import runpy
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentensor.chain import Admission, Chain, from_wei, to_wei
from eigentensor.economics import WAD
from eigentensor.errors import EigenTensorError, ExecutorFailed, WrongResult
from eigentensor.merkle import operators_root
from eigentensor.task import Failed
from eigentensor_client.amounts import number
from eigentensor_client.cli import exit_code, report
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import TaskResult
from eigentensor_client.screen import Screen, console, short, table
from eigentensor_local.actors import SilentOperator
from eigentensor_local.devnet import Devnet, devnet
from eigentensor_local.processes import ended_by_signals
from eigentensor_local.trial import convict

if TYPE_CHECKING:
    from eigentensor.capture import GraphProgram  # tinygrad looks for its cache when it is imported: not before `main`

BLOCK_TIME = 0.5
OPERATORS = {"EIGENTENSOR_OPERATOR_CAPACITY": "1"}  # one task at a time: there is work for all three
#: Every task is checked. Windows are as short as they can be while three daemons share a small machine.
TERMS = Terms(to_wei("0.05"), to_wei("0.01"), ramp=40, check_rate=WAD, exec=40, accept_within=60)
PATIENCE = 5  # blocks that the silent operator is given
DIGITS = Path(__file__).parents[1] / "examples" / "digits.py"


class Show:
    """What the audience sees."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.out = console()
        self.screen = Screen(talk=self.out)

    def say(self, *things: Any) -> None:
        for thing in things:
            self.out.print(thing)

    @contextmanager
    def part(self, title: str) -> Iterator[None]:
        began = time.monotonic()
        self.say(f"── {title} " + "─" * (76 - len(title)))
        yield
        self.say(f"({time.monotonic() - began:.0f} s)", "")


def main() -> None:
    """Runs the six parts; exits with the code of the first error, 130 on Ctrl-C."""
    show = Show()
    try:
        with ended_by_signals(), tempfile.TemporaryDirectory(prefix="eigentensor-demo-") as home:
            for word in ("STATE", "CACHE", "DATA", "CONFIG"):
                os.environ[f"XDG_{word}_HOME"] = str(Path(home, word.lower()))
            os.environ["PARALLEL"] = "0"  # tinygrad's workers, killed together with us, would let the exit wait forever
            perform(show)
    except EigenTensorError as error:
        report(error, as_json=False)
        sys.exit(exit_code(type(error)))
    except KeyboardInterrupt:
        show.say("interrupted: everything that was started has ended")
        sys.exit(130)
    show.say(f"Nothing is left of it. {time.monotonic() - show.began:.0f} s in all.")


def perform(show: Show) -> None:
    with ExitStack() as stack:
        with show.part("1  A local network: chain, contracts, aggregator, three operators"):
            net = begin(show, stack)
        with show.part("2  A network that reads digits becomes a program"):
            graph, images, labels = learn(show)
        work = Work(graph.program, {"images": images[0]}, dict(graph.weights))
        with Client(net.network) as client:
            with show.part("3  Held-out digits as paid tasks, each checked by somebody else"):
                pay(show, client, graph, images, labels)
            with show.part("4  An operator reveals one wrong bit"):
                convict(show, client, net, work, TERMS)
            with show.part("5  An operator accepts a task and is never heard of again"):
                be_silent(show, client, net, work)
        with show.part("6  The end"):
            names = ", ".join(process.name for process in net.processes)
            stack.close()
            show.say(f"ended: {names}, chain")


def begin(show: Show, stack: ExitStack) -> Devnet:
    with show.screen.work() as bar:
        bar("the contracts are deployed; operators stake, enlist as verifiers, deposit collateral, test their device")
        net = stack.enter_context(devnet(3, OPERATORS, block_time=BLOCK_TIME))
    deployment = net.network.deployment
    rows = [
        ["chain", f"{net.network.rpc_url}, a block every {BLOCK_TIME} s"],
        ["market", deployment.task_market],
        ["referee", deployment.referee],
        ["gateway", net.network.gateway_url],
        *([party.name, party.address] for party in net.operators),
    ]
    show.say(table(("", ""), rows))
    return net


def learn(show: Show) -> tuple["GraphProgram", np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The captured network, the held-out images and their labels in batches."""
    from eigentensor.capture import capture

    with show.screen.work() as bar:
        bar("training on 1,500 handwritten digits")
        digits = runpy.run_path(str(DIGITS))
        training, held_out = digits["load"]()
        net = digits["train"](training)
        bar("capturing")
        images = held_out.images.reshape(-1, digits["BATCH"], *held_out.images.shape[1:])
        graph = capture(net, {"images": images[0]}, model=net)
    weights = sum(array.nbytes for array in graph.weights.values())
    show.say(f"program {graph.uuid}")
    show.say(f"{len(graph.to_bytes()):,} bytes, {len(graph.program.calls)} calls; weights apart: {weights:,} bytes")
    return graph, images, held_out.labels.reshape(len(images), -1)


def pay(
    show: Show, client: Client, graph: "GraphProgram", images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]
) -> None:
    from eigentensor.runtime import execute

    works = [Work(graph.program, {"images": batch}, dict(graph.weights)) for batch in images]
    plan = client.plan(works[0], TERMS)
    show.say(f"{len(works)} tasks of {len(images[0])} images, each for {from_wei(TERMS.min_price or 0)} to "
             f"{client.amount(TERMS.max_price)}, price rising until somebody accepts")  # fmt: skip
    lost = f"{client.amount(plan.stake)} of stake and {client.amount(plan.collateral)} of collateral"
    show.say(
        f"each checked with certainty: {client.amount(plan.check_fee)} for the verifier; a wrong bit would cost {lost}"
    )
    results: list[TaskResult] = []
    with show.screen.work() as bar:
        tasks = client.post(works, TERMS, bar)
        for number, task in enumerate(tasks, 1):
            done = client.wait(task, "checked", tell=lambda text, *_, n=number: bar(f"task {n}: {text}"))
            results.append(client.deliver(done, bar))
            who = f"executor {short(done.executor or '')}, price {client.amount(done.price or 0)}"
            show.say(f"task {short(task.uuid)}  {done.words}: {who}")
        finals = [client.wait(task, "final", tell=bar) for task in tasks]
    rows, right = [], 0
    for result, final, batch, truth in zip(results, finals, images, labels, strict=True):
        scores = result.outputs["output"]
        here = execute(graph.program, {"images": batch, **graph.weights}).outputs["output"]
        if scores.tobytes() != here.tobytes():
            raise WrongResult(f"task {final.uuid} differs from the local run")
        hits = int((scores.argmax(axis=1) == truth).sum())
        right += hits
        price = client.amount(final.price or 0)
        rows.append([short(final.uuid), short(final.executor or ""), price, final.words, f"{hits}/{len(truth)}", "all"])
    show.say(table(("task", "executor", "price", "state", "right", "bits equal to the local run"), rows))
    show.say(f"accuracy {right / labels.size:.1%} on {labels.size} digits that the network never saw")


def be_silent(show: Show, client: Client, net: Devnet, work: Work) -> None:
    """One operator accepts, commits nothing, and pays the penalty; the client gets everything back."""
    with show.screen.work() as bar:
        bar("the operator joins")
        party = net.party("silent")
        net.join(party)
        terms = Terms(TERMS.max_price, exec=PATIENCE, operators=operators_root([bytes.fromhex(party.address[2:])]))
        balances = [_balances(client, party.address)]
        (task,) = client.post([work], terms, bar)
        with Chain(net.network, party.signer, party.folder / "signer.sqlite") as chain:
            SilentOperator(chain, party.address).accept(task.order, Admission(0, 1, ()))
        balances.append(_balances(client, party.address))
        try:
            client.wait(task, tell=bar)
        except ExecutorFailed as error:
            show.say(error.what)
        balances.append(_balances(client, party.address))
    failed = next(event for event in client.task(task.uuid).events if isinstance(event, Failed))
    names = ("client", "operator, free", "operator, held as collateral", "burned")
    deployment = client.network.deployment
    rows = [
        [name, *(number(wei, deployment) for wei in amounts)]
        for name, amounts in zip(names, zip(*balances, strict=True), strict=True)
    ]
    show.say(table((f"{deployment.token_symbol} of", "before", "while accepted", "after"), rows))
    show.say(f"penalty {client.amount(failed.penalty)}, burned; refund {client.amount(failed.refund)}")


def _balances(client: Client, operator: str) -> tuple[int, int, int, int]:
    """Wei of the client (market and wallet), of the operator in the market, and burned."""
    chain, burn = client.chain, client.network.deployment.burn
    own, other, held = (
        chain.market.balance_of(client.address),
        chain.market.balance_of(operator),
        chain.market.held_of(operator),
    )
    burned = chain.market.balance_of(burn).balance + chain.token.balance_of(burn)
    return own.balance + chain.token.balance_of(client.address), other.balance + other.collateral - held, held, burned


if __name__ == "__main__":
    main()
