"""Receipts of the client's tasks: made from the chain, and from what the gateway has of their results."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eigentensor import receipt
from eigentensor.chain import Reader
from eigentensor.errors import BlobNotFound, EigenTensorError, ExecutorConvicted, NotYet, WrongResult
from eigentensor.pace import UNKNOWN, Pace
from eigentensor.receipt import Proved, Receipt, Standing, canonical, tasks_of
from eigentensor.receipt.calls import CallStanding, SignedCall, is_call
from eigentensor.receipt.facts import agrees, end_of, lost_by
from eigentensor.reexecution.inputs import fetch_roots
from eigentensor.store import GatewayClient
from eigentensor.task import State
from eigentensor.task.words import checked
from eigentensor_client import stages
from eigentensor_client.amounts import amount
from eigentensor_client.declines import advice_on
from eigentensor_client.files import write_whole
from eigentensor_client.inputs import existing
from eigentensor_client.screen import facts, table
from eigentensor_client.tables import Table
from eigentensor_client.task_view import TaskView

if TYPE_CHECKING:
    from eigentensor_client.looking import Look
    from eigentensor_client.schemas import channels as call_schemas
    from eigentensor_client.schemas import results as schemas

_PROVABLE = (State.REVEALED, State.FINAL, State.CONVICTED)


def receipt_of(chain: Reader, gateway: GatewayClient, task: TaskView) -> Receipt:
    """The receipt of a task as it stands, once there is a result, or a conviction.

    Raises what `Client.wait` raises of a task without result, and NotYet. If the gateway does not have the roots of its
    outputs and new states, the receipt does not have them either: a file of outputs cannot be held to it then.
    """
    if task.state not in _PROVABLE:
        advice = advice_on(gateway, task, chain.deployment) if task.state is State.EXPIRED else None
        failed = stages.failure(task, "result", lambda wei: amount(wei, chain.deployment), advice)
        raise failed or NotYet(
            f"task {task.uuid} is {task.words}: there is no result to give a receipt of",
            fix=f"It waits for {task.waits_for}.",
        )
    parts, root = None, chain.market.outputs_root_of(bytes.fromhex(task.uuid))
    if any(root):
        with suppress(BlobNotFound):
            parts = fetch_roots(gateway, root)
    return receipt.read(chain, task.order, parts)


def load(path: Path) -> Receipt | SignedCall:
    """The receipt in a file, of a task or of a call. Raises BlobNotFound, and WrongReceipt for what is none, or is not
    what it says."""
    with existing(path).open("rb") as file:
        data = file.read(canonical.MOST + 1)
    return SignedCall.from_bytes(data) if is_call(data) else Receipt.from_bytes(data)


def write(path: Path, receipt: Receipt) -> None:
    """Writes a receipt's file, which is whole or not there. Raises ConfigError where none can be written."""
    data = receipt.to_bytes()
    write_whole(path, lambda file: file.write_bytes(data))


def write_call(path: Path, call: SignedCall) -> None:
    """Writes a call receipt's file, as `write` does."""
    data = call.to_bytes()
    write_whole(path, lambda file: file.write_bytes(data))


def written(path: Path, receipt: Receipt) -> str:
    """Where a receipt was written, how large it is, and what of that proves other tasks as well."""
    line = f"{path}, {path.stat().st_size:,} bytes"
    sharing = {raw: tasks for raw in receipt.transactions if (tasks := tasks_of(raw)) > 1}
    if not sharing:
        return line
    size, most = 2 * sum(map(len, sharing)), max(sharing.values())
    return f"{line}: {size:,} of them are transactions about {most} tasks, of which a signature needs the whole"


def fields(receipt: Receipt) -> "schemas.ReceiptFacts":
    """What a receipt is about, as JSON."""
    life, root = receipt.life, receipt.life.outputs_root
    return {
        "task": receipt.task,
        "state": receipt.state,
        "block": receipt.head.number,
        "executor": life.executor or "",
        "price": str(life.price),
        "outputs_root": None if root is None else "0x" + root.hex(),
    }


def summary(receipt: Receipt, *, confirmed: bool = True) -> list[list[str]]:
    """What a receipt is about: names and what they stand for. Without a chain the state is what it says itself."""
    life, end = receipt.life, end_of(receipt.life)
    state = "state" if confirmed else "it says"

    def say(wei: int | None) -> str:
        return amount(wei or 0, receipt.market)

    rows = [
        ["task", receipt.task],
        [state, f"{receipt.state}, in block {receipt.head.number} of chain {receipt.market.domain.chain_id}"],
        ["client", receipt.order.client],
        ["executor", life.executor or ""],
        ["price", f"{say(life.price)} of {say(life.order.escrow)} in escrow"],
    ]
    if end is not None:
        rows.append(["refund", say(end.refund)])
    if life.outputs_root is not None:
        rows.append(["outputs", f"root 0x{life.outputs_root.hex()}"])
    if life.drawn is not None:
        rows.append(["draw", "drawn for a check" if life.drawn else "not drawn for a check"])
    for answer in life.answers.values():
        result = {None: "not revealed", True: "agrees", False: "has another result"}[agrees(life, answer)]
        rows.append(["verifier", f"{answer.operator}: {'exposed, ' * answer.exposed}{result}"])
    for game in life.games.values():
        rows.append([f"game {game.number}", f"by {game.challenger}: {_lost(lost_by(game))}"])
    return [*rows, ["at stake", f"{say(life.stake)} of stake, {say(life.collateral)} of collateral"]]


def _lost(by: str | None) -> str:
    return "not decided" if by is None else f"lost by the {by}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A receipt and what was found: its lines, how it stands on the chain, at which pace, and a second execution, where
    asked for."""

    receipt: Receipt
    proved: tuple[Proved, ...]
    standing: Standing | None = None
    look: "Look | None" = None
    pace: Pace = UNKNOWN

    def failure(self) -> EigenTensorError | None:
        """A receipt can be true and its result wrong: then the check fails, unless it says itself that the executor was
        convicted. WrongResult, ExecutorConvicted, or None."""
        receipt, look = self.receipt, self.look
        if receipt.life.state is State.CONVICTED:
            return None
        if look is not None and not look.agrees:
            what = "" if look.difference is None else f": {look.difference.words}"
            return WrongResult(
                f"the result of task {receipt.task} is wrong, as this machine computes it, twice{what}",
                fix=f"While its window is open, `eigentensor challenge open {receipt.task}` challenges it.",
            )
        if self.standing is not None and self.standing.state is State.CONVICTED:
            return ExecutorConvicted(
                f"the receipt is of block {receipt.head.number}; executor {receipt.life.executor} is convicted for "
                f"task {receipt.task}, as it stands now",
                fix="`eigentensor receipt get` writes the task's receipt as it is now.",
            )
        return None

    def to_json(self) -> "schemas.ReceiptCheck":
        """`eigentensor.receipt-check/1`."""
        now, look = self.standing, self.look
        return {
            "schema": "eigentensor.receipt-check/1",
            **fields(self.receipt),
            "lines": [line.to_json() for line in self.proved],
            "proves": self.proves(),
            "leaves_open": self.leaves_open(),
            "looked_at": None if now is None else {"first": now.first, "last": now.last},
            "now": None if now is None else {"block": now.block, "state": now.words},
            "executed": None
            if look is None
            else {"agrees": look.agrees, "outputs_root": "0x" + look.outputs_root.hex()},
        }

    def lines(self) -> list[str | Table]:
        """The same for people: a line for each proof, and what is left open."""
        asked = self.standing is not None
        lines_ = [
            [line.by, line.what if asked or not line.left else f"{line.what} ({line.left})"] for line in self.proved
        ]
        shown = table(("by", "line"), lines_)
        rows = [["proves", says] for says in self.proves()] + [["leaves open", says] for says in self.leaves_open()]
        return [facts(summary(self.receipt, confirmed=asked)), "", shown, "", facts(rows)]

    def proves(self) -> list[str]:
        """What follows, in sentences, from the file, the chain and the execution, as far as they were asked."""
        says = ["who signed what, line by line"]
        if self.standing is not None:
            says += _on_chain(self.receipt, self.standing, self.pace)
        if self.look is not None:
            word = "right" if self.look.agrees else "wrong"
            root = f"its outputs root is 0x{self.look.outputs_root.hex()}"
            says.append(f"the result is {word}: executed again on this machine, {root}")
        return says

    def leaves_open(self) -> list[str]:
        """What does not follow, in sentences, and what would help."""
        life = self.receipt.life
        says = _open_offline(self.receipt)
        if self.standing is not None:
            says = _open_on_chain(self.receipt, self.standing, self.pace)
        if self.look is None and life.outputs_root is not None:
            says.append("that the result is right: --deep executes the program again")
        if self.look is None and checked(life.counts) == "unchecked":
            says.append("nobody has re-executed it: it is unchecked")
        if life.agreed:
            says.append("that its verifiers executed: nothing can; hidden answers make copying a losing trade")
        return says


def _open_offline(receipt: Receipt) -> list[str]:
    says = [
        "that it happened on that chain, and nothing else; finality and stake: --chain asks the chain",
        "what stands in brackets, and whose the drawn seats are: --chain",
    ]
    if receipt.life.state is State.REVEALED:
        last = receipt.life.challenge_by
        says.append(f"what came after block {receipt.head.number}: challenges could come until block {last}")
    return says


def _on_chain(receipt: Receipt, standing: Standing, pace: Pace) -> list[str]:
    head = receipt.head.number
    depth = "which the chain calls final" if standing.finalized >= head else f"{standing.block - head} blocks deep"
    locked = "no stake is locked for it any more"
    if standing.lock.shares:
        stake = amount(standing.worth, receipt.market)
        end = pace.block(standing.lock.end, standing.block)
        locked = f"{stake} of the executor's stake are locked for it, until {end} at the latest"
    return [
        f"it happened: the chain has each event where it says, up to block {head}, {depth}",
        f"nothing else happened to it in blocks {standing.first} to {standing.last}, which were looked at",
        f"the task is now, in block {standing.block}, {standing.words}",
        locked,
    ]


def _open_on_chain(receipt: Receipt, standing: Standing, pace: Pace) -> list[str]:
    says = ["that the node told the truth about the chain: ask another one, or your own"]
    if standing.state is State.REVEALED and receipt.life.revealed_at is not None:
        last = receipt.life.challenge_by
        over, until = standing.block > last, pace.block(last, standing.block)
        says.append("how it ends: " + ("it is not closed yet" if over else f"challenges come until {until}"))
    return says


# ---- Calls ----


def call_facts(call: SignedCall) -> "call_schemas.CallReceiptFacts":
    """What a call receipt is about, as JSON."""
    receipt = call.receipt
    return {
        "channel": receipt.channel.hex(),
        "index": receipt.index,
        "order": "0x" + receipt.order.hex(),
        "outputs_root": "0x" + receipt.outputs_root.hex(),
        "number": receipt.number,
    }


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call receipt and what was found: its lines, how it stands on the chain, and a second execution, where asked
    for."""

    call: SignedCall
    proved: tuple[Proved, ...]
    standing: CallStanding | None = None
    look: "Look | None" = None

    def failure(self) -> EigenTensorError | None:
        """As `Checked.failure`."""
        if self.look is not None and not self.look.agrees:
            return WrongResult(
                f"the result of call {self.call.receipt.index} is wrong, as this machine computes it, twice",
                fix="While its batch is open, whoever has its inputs can challenge it.",
            )
        if self.standing is not None and self.standing.state == "convicted":
            return ExecutorConvicted(
                f"operator {self.call.offer.operator} is convicted for batch {self.call.receipt.number}, which owes it",
                fix="The channel's watch fetches what comes back.",
            )
        return None

    def to_json(self) -> "call_schemas.CallReceiptCheck":
        """`eigentensor.call-receipt-check/1`."""
        look = self.look
        return {
            "schema": "eigentensor.call-receipt-check/1",
            **call_facts(self.call),
            "lines": [line.to_json() for line in self.proved],
            "leaves_open": self.leaves_open(),
            "now": None if self.standing is None else self.standing.to_json(),
            "executed": None
            if look is None
            else {"agrees": look.agrees, "outputs_root": "0x" + look.outputs_root.hex()},
        }

    def lines(self) -> list[str | Table]:
        """The same for people."""
        receipt, now = self.call.receipt, self.standing
        rows = [
            ["call", f"{receipt.index} of channel {receipt.channel.hex()}"],
            ["client", self.call.deal.client],
            ["operator", self.call.offer.operator],
            ["outputs", f"root 0x{receipt.outputs_root.hex()}"],
        ]
        if now is not None:
            words = f", checked({now.confirmed})" if now.confirmed else ""
            rows.append(["batch", f"{receipt.number}: {now.state}{words}, in block {now.block}"])
        if self.look is not None:
            rows.append(
                ["executed", "again on this machine: " + ("the same" if self.look.agrees else "another result")]
            )
        proved = [
            [line.by, line.what if now is not None or not line.left else f"{line.what} ({line.left})"]
            for line in self.proved
        ]
        leaves_open = [["leaves open", says] for says in self.leaves_open()]
        return [facts(rows), "", table(("by", "line"), proved), "", facts(leaves_open)]

    def leaves_open(self) -> list[str]:
        """What does not follow, in sentences, and what would help."""
        says = []
        if self.standing is None:
            says.append("that it happened on that chain, how its batch stands, and stake: --chain asks the chain")
        else:
            says.append("that the node told the truth about the chain: ask another one, or your own")
        if self.call.committed is None:
            says.append("where a batch has it: `eigentensor channel receipt` writes it anew once that is committed")
        if self.look is None:
            says.append("that the result is right: --deep executes the program again")
        return says
