"""What the lane does with calls that were taken: they are executed, their receipts are signed and written down."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat

from eigentensor import merkle
from eigentensor.channel import message_of
from eigentensor.channel.calls import CallResponse
from eigentensor.errors import CallRefused, EigenTensorError, ServiceBusy, WrongBits
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Kind, Program
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import Tensors
from eigentensor.runtime.sandbox.ready import Given
from eigentensor.store.tensors import dump_safetensors
from eigentensor.task.order import NONE, Domain, Signer
from eigentensor_operator.calls.channels import Answer, ServedChannel, Ticket
from eigentensor_operator.calls.inputs import read_states
from eigentensor_operator.calls.lane import Done
from eigentensor_operator.calls.ledger import Executed, Ledger
from eigentensor_operator.calls.recent import CHAIN, Patch, RecentStates, States
from eigentensor_operator.calls.standing import Standing

_SMALL = 1 << 18  # bytes of results that are hashed at once, instead of in a thread


class Executing:
    """`Work` of the lane. Until `stop` it executes; `waiting` counts the calls under way of each caller, `stopped` says
    why nothing is executed any more, and is empty while it is. The lock is the service's, under which channels
    change."""

    def __init__(
        self,
        domain: Domain,
        key: Signer,
        ledger: Ledger,
        standing: Standing,
        lock: threading.RLock,
        weigh: Callable[[ServedChannel], None],
        *,
        reserve: int,
        seconds: float,
    ) -> None:
        """`key` signs receipts; `weigh` takes a channel whose load has changed. `reserve`, `seconds`: see `Rules`."""
        self.stopped = ""
        self.waiting: Counter[str] = Counter()
        self._domain, self._key, self._ledger, self._standing = domain, key, ledger, standing
        self._lock, self._weigh, self._reserve, self._seconds = lock, weigh, reserve, seconds
        self._fault: ServiceBusy | None = None
        self._recent = RecentStates()

    async def execute(self, tickets: Sequence[Ticket]) -> list[Results | Exception]:
        """See `Work`."""
        served, repeated = tickets[0].served, tickets[0].computation.repeat
        ready = [await self._given(ticket) for ticket in tickets]
        calls = [one for one in ready if not isinstance(one, Exception)]
        outcomes: Iterator[Results | Exception]
        try:
            outcomes = iter(await served.execution.execute_all_async(calls, repeated, self._seconds))
        except WrongBits as error:
            outcomes = repeat(self._faulty(f"the device is faulty: {error.what}"))
        return [one if isinstance(one, Exception) else next(outcomes) for one in ready]

    async def _given(self, ticket: Ticket) -> Given | Exception:
        """What a call computes on, or why it is not executed."""
        try:
            self._check_generation(ticket)
            self.check()
            states = await self._states(ticket)
        except Exception as error:  # that of this call alone
            return error
        return Given({**ticket.inputs, **states}, ticket.computation.variables)

    @staticmethod
    def _check_generation(ticket: Ticket) -> None:
        if ticket.replay is None and ticket.generation != ticket.channel.generation:
            raise CallRefused("a call before it was refused, and it with it", fix="Sign it anew.")

    async def finish(self, ticket: Ticket, outcome: Results | Exception) -> Done | Answer:
        """See `Work`. Raises CallRefused where a call before it was refused, ServiceBusy where the device showed itself
        faulty."""
        if self._fault is not None:
            raise self._fault
        self._check_generation(ticket)
        if isinstance(outcome, Exception):
            raise outcome
        if sum(array.nbytes for of in (outcome.outputs, outcome.states) for array in of.values()) <= _SMALL:
            return self._done(ticket, outcome)
        return await asyncio.get_running_loop().run_in_executor(None, self._done, ticket, outcome)

    def _faulty(self, why: str) -> ServiceBusy:
        """With what calls are refused from now on, those that were executed together with the one that showed it,
        too."""
        self.stop(why)
        self._fault = ServiceBusy("the operator's device is faulty", fix="Call another operator.")
        return self._fault

    async def _states(self, ticket: Ticket) -> Tensors:
        """The states that a call goes on from. Raises BlobNotFound."""
        root = ticket.computation.states
        if root == NONE:
            return {}
        if ticket.states is not None:
            self._recent.put(States(root, ticket.states, ticket.files[root]))
            return ticket.states
        recent = self._recent.get(root)
        if recent is None:
            read = partial(self._read, ticket.served.program, root)
            recent = await asyncio.get_running_loop().run_in_executor(None, read)
        return recent.tensors

    def _read(self, program: Program, root: bytes) -> States:
        file = self._ledger.blob(root)
        states = States(root, read_states(program, file), file, CHAIN)  # it may be the last of a chain
        self._recent.put(states)
        return states

    def forget_states(self) -> None:
        """States are not kept in memory which may have been deleted."""
        self._recent.clear()

    def _done(self, ticket: Ticket, results: Results) -> Done | Answer:
        """The receipt of a call that gave this."""
        served, known = ticket.served, ticket.channel
        before = self._recent.get(ticket.computation.states)
        states, written = States.left(served.program, results.states, before)
        root = merkle.outputs_root(merkle.kind_root(served.program, Kind.OUTPUT, results.outputs), states.root)
        body = dump_safetensors(results.outputs, _dtypes(served.program))
        left = states.root if results.states else NONE
        if ticket.replay is not None:
            return self._repeated(ticket.replay, root, body, left, ticket.price)
        with self._lock:
            number = self._number_now(ticket)
            known.payee, receipt = known.payee.executed(root, number)
        signature = self._key.sign(message_of(self._domain, receipt))
        files: dict[bytes, bytes | Patch] = {**ticket.files}
        if results.states:
            files.setdefault(left, written)
            self._recent.put(states)
        call = Executed(ticket.computation, ticket.payment, receipt, signature, left)
        return Done(ticket, call, files, Answer(body, CallResponse(receipt, signature, left), ticket.price))

    def _number_now(self, ticket: Ticket) -> int:
        """The batch that owes a call: the one at its taking, or a newer one that was begun since."""
        known = ticket.channel
        pool = self._standing.chain.pools.get(known.pool)
        if pool is None or pool.begun == ticket.number:
            return ticket.number
        try:
            return max(ticket.number, self._standing.number(known.pool, known.payee.channel, self._reserve))
        except EigenTensorError:
            return ticket.number

    def _repeated(self, call: Executed, root: bytes, body: bytes, left: bytes, price: int) -> Answer:
        """What a repeated payment is answered: the same as the first time."""
        if call.receipt.outputs_root != root:
            raise self._faulty("the device gives other bits than before")
        return Answer(body, CallResponse(call.receipt, call.signature, left), price)

    def failed(self, ticket: Ticket) -> None:
        """See `Work`."""
        with self._lock:
            known = ticket.channel
            if ticket.replay is None and ticket.generation == known.generation:
                known.generation += 1
                known.payee = known.payee.refused()
                executed = known.payee.count
                known.tickets = {index: kept for index, kept in known.tickets.items() if index < executed}
                self._weigh(known)
            self._gone(ticket)

    def write(self, group: list[Done]) -> None:
        """See `Work`."""
        files = (file for done in group for file in done.files.items())
        self._ledger.keep_calls((done.call for done in group), files)

    def written(self, ticket: Ticket) -> None:
        """See `Work`."""
        with self._lock:
            if ticket.channel.tickets.get(ticket.index) is ticket:
                del ticket.channel.tickets[ticket.index]
            self._gone(ticket)

    def _gone(self, ticket: Ticket) -> None:
        self.waiting[ticket.caller] -= 1
        if not self.waiting[ticket.caller]:
            del self.waiting[ticket.caller]

    def stop(self, why: str) -> None:
        """See `Work`."""
        with self._lock:
            self.stopped = self.stopped or why

    def check(self) -> None:
        """Raises ServiceBusy if nothing is executed any more."""
        if self.stopped:
            raise ServiceBusy(f"no calls are executed: {self.stopped}", fix="Call another operator.")


def _dtypes(program: Program) -> dict[str, DType]:
    """Of the outputs."""
    return {name: program.parameter(result.buffer).dtype for name, result in program.outputs.items()}
