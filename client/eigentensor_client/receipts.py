"""Receipts of the client's tasks: made from the chain, and from what the gateway has of their results."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from eigentensor import receipt
from eigentensor.bound import fetch_roots
from eigentensor.chain import Reader, State
from eigentensor.errors import BlobNotFound, EigenTensorError, ExecutorConvicted, NotYet, WrongResult
from eigentensor.receipt import Proved, Receipt, Standing, canonical
from eigentensor.store import GatewayClient
from eigentensor_client import stages, views
from eigentensor_client.amounts import amount
from eigentensor_client.files import existing, write_whole
from eigentensor_client.results import TaskView
from eigentensor_client.screen import facts, table

if TYPE_CHECKING:
    from eigentensor_client.looking import Look

_PROVABLE = (State.REVEALED, State.FINAL, State.CONVICTED)


def receipt_of(chain: Reader, gateway: GatewayClient, task: TaskView) -> Receipt:
    """The receipt of a task as it stands now, once there is a result, or a conviction.

    Raises what `Client.wait` raises of a task without result, and NotYet. If the gateway does not have the roots of its
    outputs and new states, the receipt does not have them either: a file of outputs cannot be held to it then.
    """
    task = views.view(chain, task.order)
    if task.state not in _PROVABLE:
        failed = stages.failure(task, "result", lambda wei: amount(wei, chain.deployment))
        raise failed or NotYet(
            f"task {task.uuid} is {task.words}: there is no result to give a receipt of",
            fix=f"It waits for {stages.waits_for(task)}.",
        )
    parts, root = None, chain.outputs_root_of(bytes.fromhex(task.uuid))
    if any(root):
        with suppress(BlobNotFound):
            parts = fetch_roots(gateway, root)
    return receipt.read(chain, task.order, parts)


def load(path: Path) -> Receipt:
    """The receipt in a file. Raises BlobNotFound, and WrongReceipt for what is none, or is not what it says."""
    with existing(path).open("rb") as file:
        return Receipt.from_bytes(file.read(canonical.MOST + 1))


def write(path: Path, receipt: Receipt) -> None:
    """Writes a receipt's file, which is whole or not there. Raises ConfigError where none can be written."""
    data = receipt.to_bytes()
    write_whole(path, lambda file: file.write_bytes(data))


def fields(receipt: Receipt) -> dict[str, Any]:
    """What a receipt is about, as JSON."""
    told, root = receipt.told, receipt.told.outputs_root
    return {
        "task": receipt.task,
        "state": told.words,
        "block": receipt.head.number,
        "executor": told.executor,
        "price": str(told.price),
        "outputs_root": None if root is None else "0x" + root.hex(),
    }


def summary(receipt: Receipt) -> list[list[str]]:
    """What a receipt is about: names and what they stand for."""
    told = receipt.told

    def say(wei: int) -> str:
        return amount(wei, receipt.market)

    rows = [
        ["task", receipt.task],
        ["state", f"{told.words}, in block {receipt.head.number} of chain {receipt.market.domain.chain_id}"],
        ["client", receipt.order.client],
        ["executor", told.executor],
        ["price", f"{say(told.price)} of {say(told.escrow)} in escrow"],
    ]
    if told.refund is not None:
        rows.append(["refund", say(told.refund)])
    if told.outputs_root is not None:
        rows.append(["outputs", f"root 0x{told.outputs_root.hex()}"])
    if told.drawn is not None:
        rows.append(["draw", "drawn for a check" if told.drawn else "not drawn for a check"])
    for answer in told.answers:
        said = {None: "not revealed", True: "agrees", False: "has another result"}[answer.agrees]
        rows.append(["verifier", f"{answer.operator}: {'exposed, ' * answer.exposed}{said}"])
    for game in told.games:
        rows.append([f"game {game.number}", f"by {game.challenger}: {_lost(game.lost_by)}"])
    return [*rows, ["at stake", f"{say(told.stake)} of stake, {say(told.collateral)} of collateral"]]


def _lost(by: str | None) -> str:
    return "not decided" if by is None else f"lost by the {by}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A receipt and what was found: its lines, how it stands on the chain, and a second execution, where asked for."""

    receipt: Receipt
    proved: tuple[Proved, ...]
    standing: Standing | None = None
    look: "Look | None" = None

    def failure(self) -> EigenTensorError | None:
        """A receipt can be true and its result wrong: then the check fails, unless it says itself that the executor was
        convicted. WrongResult, ExecutorConvicted, or None."""
        receipt, look = self.receipt, self.look
        if receipt.told.state is State.CONVICTED:
            return None
        if look is not None and not look.agrees:
            what = "" if look.difference is None else f": {look.difference.words}"
            return WrongResult(
                f"the result of task {receipt.task} is wrong, as this machine computes it, twice{what}",
                fix=f"While its window is open, `eigentensor challenge open {receipt.task}` challenges it.",
            )
        if self.standing is not None and self.standing.now.told.state is State.CONVICTED:
            return ExecutorConvicted(
                f"the receipt was true in block {receipt.head.number}; since then executor {receipt.told.executor} "
                f"was convicted for task {receipt.task}",
                fix="`eigentensor receipt get` writes the task's receipt as it is now.",
            )
        return None

    def to_json(self) -> dict[str, Any]:
        """`eigentensor.receipt-check/1`."""
        now = None if self.standing is None else self.standing.now
        look = self.look
        return {
            **fields(self.receipt),
            "lines": [line.to_json() for line in self.proved],
            "proves": self.proves(),
            "leaves_open": self.leaves_open(),
            "now": now and {"block": now.head.number, "state": now.told.words},
            "executed": look and {"agrees": look.agrees, "outputs_root": "0x" + look.outputs_root.hex()},
        }

    def lines(self) -> list[str | Table]:
        found = table(("by", "line"), [[line.by, line.what] for line in self.proved])
        rows = [["proves", says] for says in self.proves()] + [["leaves open", says] for says in self.leaves_open()]
        return [facts(summary(self.receipt)), "", found, "", facts(rows)]

    def proves(self) -> list[str]:
        """What follows, in sentences, from the file, the chain and the execution, as far as they were asked."""
        says = ["who signed what, line by line"]
        if self.standing is not None:
            says += _on_chain(self.receipt, self.standing)
        if self.look is not None:
            word = "right" if self.look.agrees else "wrong"
            root = f"its outputs root is 0x{self.look.outputs_root.hex()}"
            says.append(f"the result is {word}: executed again on this machine, {root}")
        return says

    def leaves_open(self) -> list[str]:
        """What does not follow, in sentences, and what would help."""
        says, told = [], self.receipt.told
        if self.standing is None:
            says.append("that it happened on that chain, finality and stake: --chain asks the chain")
        if self.look is None and told.outputs_root is not None:
            says.append("that the result is right: --deep executes the program again")
        if self.look is None and told.checked == "unchecked":
            says.append("nobody has re-executed it: it is unchecked")
        if told.agreed:
            says.append("that its verifiers executed: nothing can; hidden answers make copying a losing trade")
        return says


def _on_chain(receipt: Receipt, standing: Standing) -> list[str]:
    head, now = receipt.head.number, standing.now
    final = "which the chain calls final" if standing.finalized >= head else f"{now.head.number - head} blocks deep"
    locked = "no stake is locked for it any more"
    if standing.lock.shares:
        stake = amount(standing.worth, receipt.market)
        locked = f"{stake} of the executor's stake are locked for it, until block {standing.lock.end} at the latest"
    return [
        f"it happened: the chain has each event where it says, and no other, up to block {head}, {final}",
        f"the task is now, in block {now.head.number}, {now.told.words}",
        locked,
    ]
