"""An account that pays on a network: plans, checks, uploads, orders, and what becomes of these."""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from eigentensor import spending, traces
from eigentensor.chain import Chain, Network
from eigentensor.errors import (
    BlobNotFound,
    EigenTensorError,
    InsufficientFunds,
    NotYet,
    Reverted,
)
from eigentensor.program import Program
from eigentensor.program.codec import decode
from eigentensor.receipt import Receipt
from eigentensor.store import LocalStore, parse_name
from eigentensor.task import Order, Signer, State, order_uuid
from eigentensor.task.due import Verb
from eigentensor.task.words import waits_for
from eigentensor_client import orders, stages, steps
from eigentensor_client.accounts import choose_account
from eigentensor_client.attempts import ENDS, Attempts
from eigentensor_client.declines import Declines, advice_on
from eigentensor_client.orders import Roots, Terms, Work
from eigentensor_client.plans import Plans
from eigentensor_client.quotes import SILENT, Market
from eigentensor_client.receipts import receipt_of
from eigentensor_client.results import TaskResult
from eigentensor_client.steps import Steps
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Report, download_outputs, download_states, silent, upload

POSTS = 32  # orders in one transaction
DELIVERY = 60.0  # seconds in which a revealed result should be at the gateway


class Payer(Plans):
    """An account on a network with a gateway: the part of `Client` that posts, and follows single tasks."""

    chain: Chain

    def __init__(
        self, network: Network | str | None = None, account: Signer | None = None, store: LocalStore | None = None
    ) -> None:
        """Without arguments the network and the keystore that the environment names; on a local chain a known key."""
        chosen = network if isinstance(network, Network) else Network.load(network)
        chain = Chain(chosen, account or choose_account(chosen))
        super().__init__(chosen, chain.address, chain, store or LocalStore())

    def close(self) -> None:
        """Closes the connection to the gateway and the account's journal."""
        super().close()
        self.chain.journal.close()

    # ---- Again ----

    def again(self, task: TaskView) -> TaskView:
        """Posts the work of a task that has ended again, on the same terms."""
        (posted,) = self.send([self.renewed(task)])
        return posted

    def renewed(self, task: TaskView) -> Order:
        """The order of another task for the work of one that has ended, on the same terms. Nothing is sent."""
        block = self.chain.node.block_number()
        return orders.renewed(task.order, secrets.randbits(128), block, self.since(task.order))

    def since(self, order: Order) -> int:
        """The block in which an order was posted; if it never was, that in which its price would have begun to rise."""
        posted = self.view(order).life.posted
        return order.ramp_start if posted is None else posted.block

    # ---- Posting ----

    def post(self, works: Sequence[Work], terms: Terms, report: Report = silent) -> list[TaskView]:
        """Posts works as tasks, as few transactions as possible; uploads what the gateway does not have.

        Weights that several works share, as the same object, are read once. Raises what `check` raises, and
        InsufficientFunds, before anything is uploaded or spent.
        """
        return self.send(self.prepare(works, terms, report), report)

    def prepare(self, works: Sequence[Work], terms: Terms, report: Report = silent) -> list[Order]:
        """As `post`, up to the orders that `send` makes tasks. Nothing is spent."""
        for work in works:
            self.check(work, terms)
        self.check_escrow(len(works), terms)
        report("uploading what the gateway does not have")
        named: list[Roots] = []
        uploaded: dict[int, bytes] = {}
        for work in works:
            roots = upload(self.gateway, replace(work, weights=uploaded.get(id(work.weights), work.weights)), report)
            if work.weights:
                uploaded[id(work.weights)] = roots.weights
            named.append(roots)
        return self.drafts(works, named, terms)

    def drafts(self, works: Sequence[Work], named: Sequence[Roots], terms: Terms) -> list[Order]:
        """New orders for works whose parts the gateway has; their time begins now. Nothing is sent."""
        market = SILENT if terms.is_fixed else Market.read(self._operators(), self.chain.node.gas_price())
        block, p = self.chain.node.block_number(), self._parameters
        return [
            orders.draft(self.address, secrets.randbits(128), block, work, roots, terms, p, place=place, market=market)
            for place, (work, roots) in enumerate(zip(works, named, strict=True))
        ]

    def send(self, drafts: Sequence[Order], report: Report = silent) -> list[TaskView]:
        """Makes orders tasks. An order becomes one task at most, however often it is sent.

        Whatever ends it early names those that are tasks by then.
        """
        report("posting")
        posted: list[str] = []
        with steps.sending(posted):
            for start in range(0, len(drafts), POSTS):
                begun = time.time()
                self.chain.market.post_many(batch := drafts[start : start + POSTS])
                uuids = [order_uuid(order, self.network.deployment.domain) for order in batch]
                posted += [uuid.hex() for uuid in uuids]
                for uuid in uuids:
                    traces.posted(uuid, begun)
            return [self.view(order) for order in drafts]

    def check_escrow(self, tasks: int, terms: Terms) -> None:
        """Raises InsufficientFunds unless the account can pay for so many tasks, PaymentRefused where it may not."""
        spending.check()  # `send` does not either: before anything is uploaded
        needed = tasks * orders.escrow(self._parameters, terms)
        self.check_funds(needed, "the escrow", fix="Offer a lower --max-price, fewer --verifiers, or get tokens.")

    def check_funds(self, needed: int, what: str, *, fix: str) -> None:
        """Raises InsufficientFunds unless the account has so many wei for `what`, and something for gas."""
        balance, tokens = self.chain.market.balance_of(self.address).balance, self.chain.token.balance_of(self.address)
        if balance + tokens < needed:
            raise InsufficientFunds(
                f"{self.amount(needed)} are needed for {what}, {self.address} has "
                f"{self.amount(balance)} in the market and {self.amount(tokens)} in its wallet",
                fix=fix,
                topic=self.network.funding,
            )
        if not self.chain.node.ether_of(self.address):
            words = "Send it some of the chain's own coin."
            raise InsufficientFunds(f"{self.address} cannot pay for gas", fix=words, topic=self.network.funding)

    # ---- What becomes of it ----

    def waiting(self, task: TaskView, stage: str, timeout: float | None, report: Report) -> Steps[TaskView]:
        """As `Client.wait`, in steps."""
        orders.check_stage(stage)
        started, declines = time.monotonic(), Declines(self.gateway, self.network.deployment)
        phases = traces.Phases(bytes.fromhex(task.uuid))
        while True:
            task = self.look(task)
            phases.now(task.words)
            if stages.reached(task, stage):
                phases.now("")
                return task
            if (error := self.failure(task, stage)) is not None:
                phases.now("")
                raise error
            heard = declines.words(task)
            waits = waits_for(task.life, task.block, self.pace)
            report(f"{task.words}: waits for {waits}{f'; operators: {heard}' if heard else ''}")
            self.move_on(task)
            left = None if timeout is None else started + timeout - time.monotonic()
            if timeout is not None and left is not None and left <= 0:
                raise stages.not_yet(task, stage, timeout)
            yield self.poll if left is None else min(self.poll, left)

    def failure(self, task: TaskView, stage: str = "result") -> EigenTensorError | None:
        """Why a task will never reach a stage; None if it may."""
        advice = advice_on(self.gateway, task, self.network.deployment) if task.state is State.EXPIRED else None
        return stages.failure(task, stage, self.amount, advice)

    def move_on(self, task: TaskView) -> None:
        """Sends what anybody may send for a task, if nobody did in time."""
        if (message := stages.late(task)) is None:
            return
        with suppress(Reverted):  # somebody else was faster: the next look shows it
            match message.verb:
                case Verb.EXPIRE:
                    self.chain.market.expire(task.order)
                case Verb.SEED:
                    self.chain.market.seed(message.number)
                case Verb.CLOSE:
                    self.chain.market.close(task.order)

    def cancel(self, task: TaskView) -> TaskView:
        """Takes back an order that nobody accepted; the whole escrow returns to the balance.

        Raises TaskError if the task is not open any more.
        """
        stages.check_open(self.look(task))
        self.chain.market.cancel(task.order)
        return self.look(task)

    # ---- Its result ----

    def fetch(self, task: TaskView, report: Report = silent, *, states: bool = True) -> TaskResult:
        """The verified result of a task that is `result` or `final`; its new states stay at the gateway if not wanted.

        Raises BlobNotFound while the bytes are nowhere, WrongResult if they are not what the executor revealed.
        """
        if task.state not in (State.REVEALED, State.FINAL):
            raise self.failure(task) or NotYet(f"task {task.uuid} is {task.words}: there is no result yet")
        with traces.span("fetch", bytes.fromhex(task.uuid)):
            program = self.program(task.order.program.hex())
            root = self.chain.market.outputs_root_of(bytes.fromhex(task.uuid))
            outputs, states_root = download_outputs(self.gateway, program, root, report)
            there = download_states(self.gateway, program, states_root, report) if states else {}
        return TaskResult(task, root, outputs, there, states_root, lambda: self.receipt(task))

    def delivering(self, task: TaskView, report: Report, states: bool) -> Steps[TaskResult]:
        """As `Client.deliver`, in steps."""
        started = time.monotonic()
        while True:
            try:
                return self.fetch(task, report, states=states)
            except BlobNotFound:
                if time.monotonic() - started > DELIVERY:
                    raise
            report("waits for the executor to upload the result")
            yield self.poll

    def completing(self, attempts: Attempts, stage: str, timeout: float | None, report: Report) -> Steps[TaskResult]:
        """As `Client.complete`, in steps."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                left = None if end is None else max(0.0, end - time.monotonic())
                task = yield from self.waiting(attempts.current[0], stage, left, report)
                break
            except ENDS as error:
                attempts.go_on(error)
        result = yield from self.delivering(task, report, True)
        return replace(result, earlier=tuple(attempts.earlier))

    def receipt(self, task: TaskView) -> Receipt:
        """The receipt of a task as it stands now, with its result or the conviction of its executor.

        Raises NotYet before, and what `wait` raises of a task that ended without a result.
        """
        return receipt_of(self.chain, self.gateway, self.look(task))

    def program(self, uuid: str) -> Program:
        """A program by its uuid, from the cache or the gateway."""
        return _decoded(self.gateway.fetch(uuid).read_bytes())

    def bindings(self, name: str) -> bytes:
        """The root by which orders name a file of tensors, of any of its names. Raises BlobNotFound."""
        names = self.store.names(name) if name in self.store else self.gateway.names(name)
        if names is None or names.computed is None:
            raise BlobNotFound(
                f"there are no tensors {parse_name(name)} here or at the gateway",
                fix="Upload them: `eigentensor blob put FILE`.",
            )
        return bytes.fromhex(names.computed)


@lru_cache(maxsize=4)
def _decoded(program: bytes) -> Program:
    """Checked once: the tasks of a session have one program."""
    return decode(program)
