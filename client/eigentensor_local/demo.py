"""The demo: checked tasks, a lie and its conviction, a silent operator, paid calls and a lie among them, on a local
network. Leaves nothing behind."""

import os
import runpy
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentensor import spending
from eigentensor.chain import Admission, Chain, from_wei, to_wei
from eigentensor.chain.transcript import transcript
from eigentensor.channel import events
from eigentensor.economics import WAD, shares
from eigentensor.economics import reward as reward_of
from eigentensor.errors import BlobNotFound, ExecutorConvicted, ExecutorFailed, NotYet, WrongResult
from eigentensor.merkle import operators_root, role_root
from eigentensor.program import Role
from eigentensor.task import Challenged, Convicted, Event, Failed, Paid, Settled, State
from eigentensor_client import transfer
from eigentensor_client.amounts import number
from eigentensor_client.client import Client
from eigentensor_client.examples import FOLDER as EXAMPLES
from eigentensor_client.games import line
from eigentensor_client.orders import Terms, Work
from eigentensor_client.phases import Bar
from eigentensor_client.results import TaskResult
from eigentensor_client.screen import Screen, console, short, table
from eigentensor_client.task_view import TaskView
from eigentensor_local import foundry
from eigentensor_local.actors import LIE, SilentOperator
from eigentensor_local.devnet import CALL_PRICE, Devnet, Party, devnet
from eigentensor_local.processes import Running, ended_by_signals

if TYPE_CHECKING:  # tinygrad looks for its cache when it is imported: not before `main`
    from eigentensor.capture import GraphProgram
    from eigentensor_client.channels.channel import Channel

BLOCK_TIME = 0.5
OPERATORS = {"EIGENTENSOR_OPERATOR_CAPACITY": "1"}  # one task at a time: there is work for all three
#: Every task is checked. Windows are as short as they can be while three daemons share a small machine.
TERMS = Terms(to_wei("0.05"), to_wei("0.01"), ramp=40, check_rate=WAD, exec=40, accept_within=60)
PATIENCE = 5  # blocks that the silent operator is given
CALLS, WRONG = 1_000, 617  # paid calls, and which one is a lie
#: A batch is committed when its calls come to four fifths of the most. Who serves them takes no tasks and checks none.
CALL_TERMS = {
    "EIGENTENSOR_OPERATOR_CALL_MOST": "0.125", "EIGENTENSOR_OPERATOR_CALL_CHECK_RATE": "0.2",
    "EIGENTENSOR_OPERATOR_CALL_EXEC": "20", "EIGENTENSOR_OPERATOR_CALL_EPOCH": "200",
    "EIGENTENSOR_OPERATOR_MIN_PRICE": "1000", "EIGENTENSOR_OPERATOR_VERIFY": "false", LIE: str(WRONG),
}  # fmt: skip


_Kind = TypeVar("_Kind", bound=Event)
_Made = TypeVar("_Made")
Learned = tuple["GraphProgram", "GraphProgram", np.ndarray[Any, Any], np.ndarray[Any, Any]]


class Show:
    """What the audience sees."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.out = console()
        self.screen = Screen(talk=self.out)

    def say(self, *things: Any) -> None:
        """Prints each thing."""
        for thing in things:
            self.screen.say(thing)

    @contextmanager
    def part(self, title: str) -> Iterator[None]:
        """A part of the demo under its title, with its seconds at the end."""
        began = time.monotonic()
        self.say(f"── {title} " + "─" * (76 - len(title)))
        yield
        self.say(f"({time.monotonic() - began:.0f} s)", "")


def main(perform: Callable[[Show], None] | None = None) -> None:
    """Runs the seven parts, or what is to be performed instead, with folders of their own for whatever a user keeps."""
    show = Show()
    foundry.anvil()  # which npm keeps for later in the folder that is still this user's
    with (
        show.screen.goes_on("interrupted: everything that was started has ended"),
        ended_by_signals(),
        tempfile.TemporaryDirectory(prefix="eigentensor-demo-") as home,
    ):
        for word in ("STATE", "CACHE", "DATA", "CONFIG"):
            os.environ[f"XDG_{word}_HOME"] = str(Path(home, word.lower()))
        os.environ["PARALLEL"] = "0"  # tinygrad's workers, killed together with us, would let the exit wait forever
        (perform or seven_parts)(show)
    show.say(f"Nothing is left of it. {time.monotonic() - show.began:.0f} s in all.")


def seven_parts(show: Show) -> None:
    """The seven parts; the training goes on while the network starts."""
    with ExitStack() as stack:
        learning = meanwhile(learn)
        with show.part("1  A local network: chain, contracts, aggregator, three operators"):
            net = begin(show, stack)
        with show.part("2  A network that reads digits becomes a program"):
            graph, single, images, labels = learned(show, learning)
        work = Work(graph.program, {"images": images[0]}, dict(graph.weights))
        with Client(net.network) as client:
            with show.part("3  Held-out digits as paid tasks, each checked by somebody else"):
                paid = pay(show, client, graph, images)
                caller = serve(show, client, net, single)  # while the windows of the tasks end
                settle(show, client, graph, paid, images, labels)
            with show.part("4  An operator reveals one wrong bit"):
                convict(show, client, recruit(show, net), net.operators, work)
            with show.part("5  An operator accepts a task and is never heard of again"):
                be_silent(show, client, net, work)
            with show.part("6  A thousand paid calls, one lie among them"):
                singles = images.reshape(-1, *images.shape[2:])
                call(show, client, net, caller, single, singles, labels.ravel())
        with show.part("7  The end"):
            names = ", ".join(process.name for process in net.processes)
            stack.close()
            show.say(f"ended: {names}, chain")


def begin(show: Show, stack: ExitStack, *, operators: int = 3, liars: int = 0) -> Devnet:
    """The network of so many operators, the last of them `liars`, which ends with the stack."""
    with show.screen.work() as bar:
        bar("the contracts are deployed; operators stake, enlist as verifiers, deposit collateral, test their device")
        net = stack.enter_context(devnet(operators, OPERATORS, liars=liars, block_time=BLOCK_TIME))
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


def meanwhile(do: Callable[[], _Made]) -> "Future[_Made]":
    """Does something in a thread, which the end of the demo does not wait for."""
    future: Future[_Made] = Future()
    carried = spending.carried(do)

    def run() -> None:
        try:
            future.set_result(carried())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def learn() -> Learned:
    """The captured network, that for one image alone, the held-out images and their labels in batches."""
    from eigentensor.capture import capture

    digits = runpy.run_path(str(EXAMPLES / "digits.py"))
    training, held_out = digits["load"]()
    net = digits["train"](training)
    images = held_out.images.reshape(-1, digits["BATCH"], *held_out.images.shape[1:])
    graph, single = (capture(net, {"images": some}, model=net) for some in (images[0], images[0][:1]))
    return graph, single, images, held_out.labels.reshape(len(images), -1)


def learned(show: Show, learning: "Future[Learned]") -> Learned:
    """What was learned, as the audience sees it."""
    with show.screen.work() as bar:
        bar("training on 1,500 handwritten digits, which began with the network's start")
        graph, single, images, labels = learning.result()
    weights = sum(array.nbytes for array in graph.weights.values())
    show.say(f"program {graph.uuid}")
    show.say(f"{len(graph.to_bytes()):,} bytes, {len(graph.program.calls)} calls; weights apart: {weights:,} bytes")
    return graph, single, images, labels


def pay(
    show: Show, client: Client, graph: "GraphProgram", images: np.ndarray[Any, Any]
) -> list[tuple[TaskView, TaskResult]]:
    """Posts a task for each batch, and waits until each is checked."""
    works = [Work(graph.program, {"images": batch}, dict(graph.weights)) for batch in images]
    plan = client.plan(works[0], TERMS)
    show.say(f"{len(works)} tasks of {len(images[0])} images, each for {from_wei(TERMS.min_price or 0)} to "
             f"{client.amount(TERMS.max_price)}, price rising until somebody accepts")  # fmt: skip
    lost = f"{client.amount(plan.stake)} of stake and {client.amount(plan.collateral)} of collateral"
    show.say(
        f"each checked with certainty: {client.amount(plan.check_fee)} for the verifier; a wrong bit would cost {lost}"
    )
    paid: list[tuple[TaskView, TaskResult]] = []
    with show.screen.work() as bar:
        tasks = client.post(works, TERMS, bar)
        for number, task in enumerate(tasks, 1):
            done = client.wait(task, "checked", report=lambda text, *_, n=number: bar(f"task {n}: {text}"))
            paid.append((task, client.deliver(done, bar)))
            who = f"executor {short(done.executor or '')}, price {client.amount(done.price or 0)}"
            show.say(f"task {short(task.uuid)}  {done.words}: {who}")
    return paid


def settle(
    show: Show, client: Client, graph: "GraphProgram", paid: Sequence[tuple[TaskView, TaskResult]],
    images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any],
) -> None:  # fmt: skip
    """Waits until each task is final, and holds every bit to a local run."""
    from eigentensor.runtime import execute

    with show.screen.work() as bar:
        finals = [client.wait(task, "final", report=bar) for task, _ in paid]
    rows, right = [], 0
    for (_, result), final, batch, truth in zip(paid, finals, images, labels, strict=True):
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
            client.wait(task, report=bar)
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


TRIAL = 120.0  # seconds in which the next thing happens
_Ledger = Mapping[str, int]


def recruit(show: Show, net: Devnet) -> Party:
    """An operator that joins, and flips one bit of what it computes."""
    with show.screen.work() as bar:
        bar("an operator joins that flips one bit of what it computes")
        liar = net.party("liar")
        daemon = net.start_operator(liar, lies=True)
        net.join(liar)
        daemon.wait_ready()
    return liar


def convict(
    show: Show, client: Client, liar: Party, operators: Sequence[Party], work: Work,
    see: Callable[[int], None] = lambda game: None,
) -> None:  # fmt: skip
    """Only a liar may accept the task; the honest operators are there to be drawn as its verifiers. `see` is told the
    number of the game, when it is open and the gateway shows it."""
    with show.screen.work() as bar:
        terms = replace(TERMS, operators=operators_root([bytes.fromhex(liar.address[2:])]))
        ledgers = [_ledger(client, liar, operators)]
        (task,) = client.post([work], terms, bar)
        show.say(f"task {short(task.uuid)}, which only {short(liar.address)} may accept")
        opened = _await_challenge(client, task, bar)
        game, name = opened.game_id, next(p.name for p in operators if p.address == opened.challenger)
        show.say(f"it reveals; {name}, drawn as its verifier, got other bits and challenges it: game {game}", "")
        _await_page(client, game)
        see(game)
        _show_moves(show, client, task, game, bar)
        try:
            client.wait(task, timeout=TRIAL, report=bar)
        except ExecutorConvicted as error:
            show.say("", error.what, "")
        ledgers.append(_ledger(client, liar, operators))
        _await_slash(client, task, bar)
        ledgers.append(_ledger(client, liar, operators))
    deployment = client.network.deployment
    rows = [[name, *(number(ledger[name], deployment) for ledger in ledgers)] for name in ledgers[0]]
    titles = ("before", "at the conviction", "when all is settled")
    show.say(table((f"{deployment.token_symbol} of", *titles), rows))
    _explain(show, client, client.look(task))
    show.say(f"while a network runs, `eigentensor challenge show {game}` tells any of its games again")


def _explain(show: Show, client: Client, task: TaskView) -> None:
    """Where the liar's money went, from the task's events."""
    for event in task.events:
        match event:
            case Convicted():
                show.say(f"back to the client: {client.amount(event.refund)}, its whole escrow")
            case Settled():
                show.say(f"to the verifier, bond included: {client.amount(event.amount)}")
            case Paid():
                share, burned = client.amount(event.share), client.amount(event.burned)
                show.say(f"of the slashed stake: {share} to each verifier that differed, {burned} burned")


def _await_challenge(client: Client, task: TaskView, bar: Bar) -> Challenged:
    """The game that a verifier opens by revealing what it got."""
    began = time.monotonic()
    while time.monotonic() - began < TRIAL:
        task = client.look(task)
        if opened := [event for event in task.events if isinstance(event, Challenged)]:
            return opened[0]
        bar(f"{task.words}: waits for {task.waits_for}")
        time.sleep(client.poll)
    raise NotYet(f"nobody challenged task {task.uuid} within {TRIAL:.0f} s")


def _await_page(client: Client, number: int) -> None:
    """Until the gateway has seen the block in which a game was opened."""
    began = time.monotonic()
    while time.monotonic() - began < TRIAL:
        with suppress(BlobNotFound):
            client.gateway.challenge(number)
            return
        time.sleep(client.poll)
    raise NotYet(f"the gateway did not show game {number} within {TRIAL:.0f} s")


def _show_moves(show: Show, client: Client, task: TaskView, number: int, bar: Bar) -> None:
    """Prints every move when it is in the chain, until the game is over, or another verifier's game has decided."""
    shown, began = 0, time.monotonic()
    while time.monotonic() - began < TRIAL:
        seen = client.look(task)
        game = client.gateway.challenge(number)
        for move in game["moves"][shown:]:
            shown += 1
            show.say(line(shown, move))
        if game["state"] == "ended" or (seen.state is State.CONVICTED and game["block"] >= seen.block):
            return
        bar(f"the {game['turn'] or 'challenger'}'s move")
        time.sleep(client.poll)
    raise NotYet(f"game {number} was not over within {TRIAL:.0f} s")


def _await_slash(client: Client, task: TaskView, bar: Bar) -> None:
    """Until the stake is slashed, the core has released it, and the verifier is paid."""
    bar("convicted: waits for the slash and for EigenLayer's core to release the stake")
    began = time.monotonic()
    while time.monotonic() - began < TRIAL:
        kinds = {type(event) for event in client.look(task).events}
        if {Paid, Settled} <= kinds:
            return
        time.sleep(client.poll)
    raise NotYet(f"the stake of task {task.uuid} was not paid out within {TRIAL:.0f} s")


def _ledger(client: Client, liar: Party, operators: Sequence[Party]) -> _Ledger:
    """Wei by name: of the client (market and wallet), of the operators in the market and at stake, and burned."""
    chain, burn = client.chain, client.network.deployment.burn
    own, lies, held = (
        chain.market.balance_of(client.address),
        chain.market.balance_of(liar.address),
        chain.market.held_of(liar.address),
    )
    ledger = {
        "client": own.balance + chain.token.balance_of(client.address),
        "liar, in the market": lies.balance + lies.collateral - held,
        "liar, held as collateral": held,
        "liar, at stake": chain.stake.of(liar.address),
    }
    for party in operators:
        account = chain.market.balance_of(party.address)
        ledger[f"{party.name}, bonds included"] = account.balance + account.collateral
    return ledger | {"burned": chain.market.balance_of(burn).balance + chain.token.balance_of(burn)}


@dataclass(frozen=True, slots=True)
class Caller:
    """An operator that serves paid calls, at a URL, once it has `joined`."""

    party: Party
    daemon: Running
    url: str
    joined: "Future[None]"


def serve(show: Show, client: Client, net: Devnet, single: "GraphProgram") -> Caller:
    """Starts an operator that serves calls of a program, and lies about one of them. It joins while others show what
    they do."""
    with show.screen.work() as bar:
        bar("an operator starts that serves paid calls")
        party = net.party("caller")
        roots = transfer.upload_fixed(client.gateway, single.program, dict(single.weights), {})
        settings, url = net.calls(party, roots.program, roots.weights, CALL_PRICE)
        daemon = net.start_operator(party, {**settings, **CALL_TERMS}, lies=True)
    return Caller(party, daemon, url, meanwhile(lambda: net.join(party, seats=False)))


def call(
    show: Show, client: Client, net: Devnet, caller: Caller, single: "GraphProgram", images: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
) -> None:  # fmt: skip
    """A digit in each call, all in one channel, and then one transaction for all of them. Who pays executes each call
    again: so the one that is wrong is found."""
    from eigentensor_client.channels.channel import Channel, Policy
    from eigentensor_client.channels.opening import Wish

    caller.joined.result()
    caller.daemon.wait_ready()
    program, price = bytes.fromhex(single.uuid), to_wei(CALL_PRICE, client.network.deployment.token_decimals)
    before, block = _money(client, caller.party, net.operators), client.chain.node.block_number()
    with show.screen.work() as bar:
        wish = Wish(2 * CALLS * price, price, (program,))
        channel = Channel.open(client, caller.url, wish, policy=Policy(recheck=1, looks=0), report=bar)
    with channel:
        account = channel.account
        stake = client.amount(shares.stake(client.network.deployment.parameters, account.agreement.offer))
        who = f"operator {short(caller.party.address)} takes calls at {caller.url}"
        show.say(f"{who}; for each batch {stake} of its stake is locked")
        show.say(f"channel {short(channel.name)}, opened once: {client.amount(account.deposit)} paid in")
        took, right = _read_digits(show, channel, single, images, labels)
        show.say(
            f"{CALLS:,} digits, a call each: {took:.1f} s, {CALLS / took:.0f} calls a second, each for "
            f"{client.amount(price)}, with a receipt that binds; {right / CALLS:.1%} right"
        )
        batches = _Batches(client.chain, block)
        with show.screen.work() as bar:
            _watch(show, client, channel, batches, bar)
        after = _money(client, caller.party, net.operators, channel.account.deposit)
    deployment = client.network.deployment
    rows = [[name, number(before[name], deployment), number(after[name], deployment)] for name in before]
    show.say("", table((f"{deployment.token_symbol} of", "before", "at the conviction"), rows))
    winner, paid = batches.of(events.Convicted)[0].winner, sum(event.amount for event in batches.of(events.Refunded))
    who = "the client" if winner == client.address else short(winner)
    reward = client.amount(reward_of(deployment.parameters, price))
    show.say(
        f"back to the client: {client.amount(paid)}, what all calls of the batch cost",
        f"to {who}, who proved it: {reward}, out of what the operator held for the batch; the rest of that is burned",
        f"of its stake {stake} is slashed: half for {who}, once EigenLayer's core has released it, half burned",
    )


def _read_digits(
    show: Show, channel: "Channel", single: "GraphProgram", images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]
) -> tuple[float, int]:
    """Calls with one image after the other, as many at once as the offer lets: the seconds, and how many are right."""
    program, root = single.program, bytes.fromhex(single.uuid)
    weights = role_root(program, Role.WEIGHT, single.weights)

    def read(number: int) -> bool:
        result = channel.call(program, root, {"images": images[number % len(images)][None]}, weights=weights)
        return bool(result.outputs["output"].argmax() == labels[number % len(labels)])

    with show.screen.work() as bar, ThreadPoolExecutor(shares.TAIL) as threads:
        began, right = time.monotonic(), 0
        for done, is_right in enumerate(threads.map(read, range(CALLS)), 1):
            right += is_right
            bar("paid calls", done, CALLS)
        return time.monotonic() - began, right


class _Batches:
    """What the chain has of paid calls since a block."""

    def __init__(self, chain: Chain, first: int) -> None:
        self._chain, self._first = chain, first
        self._sent: dict[bytes, tuple[str, int]] = {}
        self._events: list[Event] = []
        self._shown = 0

    def look(self) -> None:
        """Reads what happened."""
        self._events = list(self._chain.history.calls(self._first))

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """The events of a kind."""
        return [event for event in self._events if isinstance(event, kind)]

    def sent(self, event: Event) -> tuple[str, int]:
        """Who sent the transaction of an event, and its gas."""
        transaction = event.place.transaction
        if transaction not in self._sent and (receipt := self._chain.node.receipt(transaction)) is not None:
            self._sent[transaction] = str(receipt["from"]), int(receipt["gasUsed"])
        return self._sent[transaction]

    def moves(self) -> list[str]:
        """The moves of the first game that were not shown yet."""
        if not (games := self.of(events.Challenged)):
            return []
        number = games[0].game_id
        own = [(event, self.sent(event)) for event in self._events if getattr(event, "game_id", None) == number]
        p, block = self._chain.deployment.parameters, self._events[-1].place.block
        moves = transcript(number, own, state="open", block=block, parameters=p)["moves"]
        shown, self._shown = self._shown, len(moves)
        return [line(count, move) for count, move in enumerate(moves[shown:], shown + 1)]

    def is_paid_back(self) -> bool:
        """Whether a batch was convicted, and its clients have back what its calls cost."""
        convicted = self.of(events.Convicted)
        return bool(convicted) and not any(self._chain.channels.payback_at(event.batch).left for event in convicted)


def _watch(show: Show, client: Client, channel: "Channel", batches: _Batches, bar: Bar) -> None:
    """Looks at the channel until the liar is convicted and the calls are paid back, and says what happens."""
    committed, began = 0, time.monotonic()
    bar("the operator commits to all calls at once")
    while time.monotonic() - began < TRIAL:
        batches.look()
        commits = batches.of(events.Committed)
        for event in commits[committed:]:
            gas = batches.sent(event)[1]
            show.say(f"one transaction commits to {event.leaves:,} calls: {gas:,} gas, {gas / event.leaves:.0f} a call")
            bar("the client executes each of them again, and plays the game about what is wrong")
        committed = len(commits)
        show.say(*batches.moves())
        if batches.is_paid_back():
            return
        show.say(*(f"batch {one.number}: {one.what}" for one in channel.look()))
        time.sleep(client.poll)
    raise NotYet(f"no batch of calls was convicted and paid back within {TRIAL:.0f} s")


def _money(client: Client, caller: Party, operators: Sequence[Party], deposit: int = 0) -> _Ledger:
    """Wei by name, wherever they are: in wallets, in the markets, at stake, and the client's `deposit` in a channel."""
    chain, burn = client.chain, client.network.deployment.burn

    def of(account: str) -> int:
        tasks, calls = chain.market.balance_of(account), chain.channels.balance_of(account)
        held = tasks.balance + tasks.collateral + calls.balance + calls.collateral
        return held + chain.token.balance_of(account)

    return {
        "client": of(client.address) + deposit,
        "caller, in the markets": of(caller.address) + of(caller.signer.address),
        "caller, at stake": chain.stake.of(caller.address),
        **{f"{party.name}, bonds included": of(party.address) + of(party.signer.address) for party in operators},
        "burned": of(burn),
    }
