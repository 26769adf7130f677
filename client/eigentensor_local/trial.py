"""A part of the demo: an operator reveals one wrong bit and is found out, convicted and slashed, move by move."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eigentensor.errors import BlobNotFound, ExecutorConvicted, NotYet
from eigentensor.merkle import operators_root
from eigentensor.task import Challenged, Convicted, Paid, Settled, State
from eigentensor_client.amounts import number
from eigentensor_client.client import Client
from eigentensor_client.games import line
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import TaskView
from eigentensor_client.screen import Bar, short, table
from eigentensor_local.devnet import Devnet, Party

if TYPE_CHECKING:
    from eigentensor_local.demo import Show

PATIENCE = 120.0  # seconds in which the next thing happens
_Ledger = Mapping[str, int]


def convict(show: "Show", client: Client, net: Devnet, work: Work, terms: Terms) -> None:
    """Only a liar may accept the task; the honest operators are there to be drawn as its verifiers."""
    operators = net.operators
    with show.screen.work() as bar:
        bar("an operator joins that flips one bit of what it computes")
        liar = net.party("liar")
        daemon = net.start_operator(liar, lies=True)
        net.join(liar)
        daemon.wait_ready()
        terms = replace(terms, operators=operators_root([bytes.fromhex(liar.address[2:])]))
        books = [_ledger(client, liar, operators)]
        (task,) = client.post([work], terms, bar)
        show.say(f"task {short(task.uuid)}, which only {short(liar.address)} may accept")
        opened = _await_challenge(client, task, bar)
        game, name = opened.game_id, next(p.name for p in operators if p.address == opened.challenger)
        show.say(f"it reveals; {name}, drawn as its verifier, got other bits and challenges it: game {game}", "")
        _tell_moves(show, client, task, game, bar)
        try:
            client.wait(task, timeout=PATIENCE, tell=bar)
        except ExecutorConvicted as error:
            show.say("", error.what, "")
        books.append(_ledger(client, liar, operators))
        _await_slash(client, task, bar)
        books.append(_ledger(client, liar, operators))
    deployment = client.network.deployment
    rows = [[name, *(number(book[name], deployment) for book in books)] for name in books[0]]
    titles = ("before", "at the conviction", "when all is settled")
    show.say(table((f"{deployment.token_symbol} of", *titles), rows))
    _explain(show, client, client.look(task))
    show.say(f"while a network runs, `eigentensor challenge show {game}` tells any of its games again")


def _explain(show: "Show", client: Client, task: TaskView) -> None:
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
    while time.monotonic() - began < PATIENCE:
        task = client.look(task)
        if opened := [event for event in task.events if isinstance(event, Challenged)]:
            return opened[0]
        bar(f"{task.words}: waits for {task.waits_for}")
        time.sleep(client.poll)
    raise NotYet(f"nobody challenged task {task.uuid} within {PATIENCE:.0f} s")


def _tell_moves(show: "Show", client: Client, task: TaskView, number: int, bar: Bar) -> None:
    """Prints every move when it is in the chain, until the game is over, or another verifier's game has decided."""
    told, began = 0, time.monotonic()
    while time.monotonic() - began < PATIENCE:
        seen = client.look(task)
        try:
            game = client.gateway.challenge(number)
        except BlobNotFound:  # the gateway has not seen the block yet
            game = {"moves": [], "state": "open", "turn": None, "block": 0}
        for move in game["moves"][told:]:
            told += 1
            show.say(line(told, move))
        if game["state"] == "ended" or (seen.state is State.CONVICTED and game["block"] >= seen.block):
            return
        bar(f"the {game['turn'] or 'challenger'}'s move")
        time.sleep(client.poll)
    raise NotYet(f"game {number} was not over within {PATIENCE:.0f} s")


def _await_slash(client: Client, task: TaskView, bar: Bar) -> None:
    """Until the stake is slashed, the core has released it, and the verifier is paid."""
    bar("convicted: waits for the slash and for EigenLayer's core to release the stake")
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        kinds = {type(event) for event in client.look(task).events}
        if {Paid, Settled} <= kinds:
            return
        time.sleep(client.poll)
    raise NotYet(f"the stake of task {task.uuid} was not paid out within {PATIENCE:.0f} s")


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
