"""Doing what the machine asks for: each step blocks, and comes back as the event that tells how it ended."""

import secrets
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from eigentensor import economics
from eigentensor.chain import Admission, Chain, Decline, Mined, Opening, PublishedAsk
from eigentensor.cluster.session import SECONDS
from eigentensor.dispute import Position, refuse
from eigentensor.errors import (
    BindingError,
    BlobTooLarge,
    ChainError,
    ClusterError,
    EigenTensorError,
    ExecutionError,
    LimitError,
    NoSandbox,
    NotDisputable,
    ProgramError,
    StoreError,
    TensorFileError,
    WorkerLost,
    WrongBits,
)
from eigentensor.player import Player
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.program.cost import compile_seconds, needs_of
from eigentensor.reexecution.inputs import BoundProgram, fetch_bound, fetch_program, fetch_results
from eigentensor.store import GatewayClient
from eigentensor.task import NONE, Order, State, commitment
from eigentensor.task.candidates import DRAWS
from eigentensor_operator import policy as rules
from eigentensor_operator import preparing
from eigentensor_operator.case import Case, Seal, Step
from eigentensor_operator.data import Shelf
from eigentensor_operator.device import Device
from eigentensor_operator.events import Done, Executed, Inspected, Looked, Outcome, Undone
from eigentensor_operator.policy import Code, Policy, Reason
from eigentensor_operator.verifying import candidacy_of

_MOST = 200  # the longest text of a published reason
_LOADED = 4  # tasks of which the tensors stay in memory
_TRIED_BYTES = 64 << 20  # of a task whose results stay there from its trial to its execution
#: What the system refuses where disk or memory are full: a task that was accepted waits for it to pass.
NO_ROOM = OSError, MemoryError, sqlite3.Error


class Steps:
    """The operator's hands. Steps of different tasks may run at the same time, those of one task never do."""

    def __init__(
        self, chain: Chain, gateway: GatewayClient, device: Device, shelf: Shelf, policy: Policy, drain_file: Path
    ) -> None:
        self._chain = chain
        self._gateway = gateway
        self._device = device
        self._shelf = shelf
        self._policy = policy
        self._drain_file = drain_file
        self._bound: OrderedDict[bytes, BoundProgram] = OrderedDict()
        self._tried: OrderedDict[bytes, Results] = OrderedDict()
        self._loading = threading.Lock()
        public = partial(fetch_results, gateway)
        self._player = Player(chain, policy.operator, self._load, device.retrace(policy), public=public)
        self._doing: Mapping[Step, Callable[[Case, int], Outcome]] = {
            Step.INSPECT: self._inspect,
            Step.FETCH: self._fetch,
            Step.PREPARE: self._prepare,
            Step.DECLINE: self._decline,
            Step.EXECUTE: self._execute,
            Step.SEED: self._seed,
            Step.LOOK: self._look,
            Step.UPLOAD: self._upload,
            Step.HALT: self._halt,
        }
        self._sending: Mapping[Step, Callable[[Case], Mined]] = {
            Step.ACCEPT: lambda case: chain.market.accept(
                policy.operator, case.order, admission_of(case.order.operators)
            ),
            Step.COMMIT: lambda case: chain.market.commit(policy.operator, case.uuid, self._commitment(case, 0)),
            Step.ANSWER: self._answer,
            Step.REVEAL: self._reveal,
            Step.SHOW: self._show,
            Step.CLOSE: lambda case: chain.market.close(case.order),
            Step.SETTLE: lambda case: chain.market.settle(case.order, self._slot(case) - 1),
            Step.SLASH: lambda case: chain.market.slash(case.order),
        }

    def do(self, step: Step, case: Case, head: int) -> Outcome:
        """One step of a task at block `head`. Expected errors come back as Undone."""
        try:
            if step in self._sending:
                return Done(case.uuid, step, self._sending[step](case).block)
            return self._doing[step](case, head)
        except (EigenTensorError, *NO_ROOM) as error:
            return Undone(case.uuid, step, reason_of(error))

    def play(self, step: Step, game: int, position: Position) -> Outcome:
        """The next move of a game, or its end by the clock."""
        try:
            mined = self._chain.games.timeout(game, position) if step is Step.TIMEOUT else self._player.turn(game)
            return Done(position.task, step, mined.block if mined else 0, game)
        except (EigenTensorError, *NO_ROOM) as error:
            return Undone(position.task, step, reason_of(error), game)

    def test(self) -> None:
        """Raises ExecutionError unless the device gives the reference's bits; it may take minutes."""
        self._device.check()

    def ping(self) -> None:
        """Raises StoreError unless the gateway answers."""
        self._gateway.network()

    def ask(self, head: int) -> None:
        """Publishes what prices are made of, as of block `head`. Raises StoreError, NotSigned."""
        published = PublishedAsk(self._policy.operator, head, self._policy.ask)
        self._gateway.ask(published.operator, published.sign(self._chain.deployment.domain, self._chain.account))

    def forget(self, task: bytes) -> None:
        """Frees what is kept for a task that is over."""
        with self._loading:
            self._bound.pop(task, None)
            self._tried.pop(task, None)
        self._shelf.drop(task)

    # ---- Data and execution ----

    def _inspect(self, case: Case, _: int) -> Outcome:
        program = fetch_program(self._gateway, case.order)
        clock = economics.clock(self._policy.parameters, case.order.exec) * self._policy.block_seconds
        if (reason := refuse(program, case.order.repeat, clock)) is not None:
            raise NotDisputable(reason)
        return Inspected(case.uuid, needs_of(program, case.order.repeat), compile_seconds(program))

    def _fetch(self, case: Case, _: int) -> Outcome:
        self._load(case.uuid, case.order)
        return Done(case.uuid, Step.FETCH)

    def _prepare(self, case: Case, _: int) -> Outcome:
        bound, failed = self._load(case.uuid, case.order), partial(Undone, case.uuid, Step.PREPARE)
        assert case.needs is not None
        if (lack := self._device.lacks(bound.program, case.order.repeat)) is not None:
            return failed(Reason(Code.MEMORY, f"{lack[0]} bytes", f"{lack[1]} bytes", lasting=False))
        try:
            self._device.compile(bound.program, preparing.limit(self._policy, case.compile_seconds))
        except LimitError as error:
            return failed(Reason(Code.COMPILE, "a program that is compiled in time", _text(error), lasting=False))
        if case.state is State.OPEN:
            try:
                self._try(case, bound)
                late = self._late(case, bound.program)
            except (WrongBits, NoSandbox, *NO_ROOM):
                raise
            except Exception as error:  # whatever it is, after the acceptance it would cost the penalty
                if isinstance(error, ClusterError) and not isinstance(error, WorkerLost):
                    raise  # says nothing about the program
                return failed(Reason(Code.TRIAL, "a program that can be executed", _text(error)))
            if late is not None:
                return failed(late)
        return Done(case.uuid, Step.PREPARE)

    def _try(self, case: Case, bound: BoundProgram) -> None:
        """Executes what is cheap, for good; of the rest everything that it reads and writes gets its shape."""
        assert case.needs is not None
        policy, program = self._policy, bound.program
        if not policy.is_cheap(case.needs):
            shapes = [*(b.shape for b in program.buffers), *(r.shape for r in program.results)]
            for shape in shapes:
                np.broadcast_to(np.int64(0), shape)
            return
        seconds = (case.order.exec - policy.reserve) * policy.block_seconds
        results = self._device.execute(bound, seconds, secrets.token_bytes(32))
        if case.needs.memory <= _TRIED_BYTES:
            with self._loading:
                self._tried[case.uuid] = results
                while len(self._tried) > _LOADED:
                    self._tried.popitem(last=False)

    def _late(self, case: Case, program: Program) -> Reason | None:
        """Why a program that would be late if it were slow is: a sample of its kernels is timed."""
        assert case.needs is not None
        policy, order = self._policy, case.order
        if policy.is_cheap(case.needs):
            return None  # it was executed
        if not self._device.is_ahead:
            late = rules.refuse_uncompiled(policy, order, case.needs, case.compile_seconds, SECONDS)
            if late is not None:
                return late
        if not rules.is_close(policy, order, case.needs):
            return None  # it has time to spare
        seconds = self._device.computing(program, order.exec * policy.block_seconds) * order.repeat
        return rules.refuse_timed(policy, order, case.needs, seconds)

    def _load(self, task: bytes, order: Order) -> BoundProgram:
        """What the order names; from the local store, once it was fetched."""
        with self._loading:
            if task in self._bound:
                self._bound.move_to_end(task)
                return self._bound[task]
        bound = fetch_bound(self._gateway, order)
        with self._loading:
            self._bound[task] = bound
            while len(self._bound) > _LOADED:
                self._bound.popitem(last=False)
        return bound

    def _execute(self, case: Case, head: int) -> Outcome:
        bound = self._load(case.uuid, case.order)
        last = case.life.check_by if case.state is State.COMMITTED else case.deadline
        seconds = max(1, last - head) * self._policy.block_seconds
        with self._loading:
            results = self._tried.pop(case.uuid, None)
        if results is None:
            results = self._device.execute(bound, seconds, secrets.token_bytes(32))
        root = self._shelf.keep(case.uuid, bound.program, results)
        return Executed(case.uuid, Seal(root, secrets.token_bytes(32)))

    def _upload(self, case: Case, _: int) -> Outcome:
        self._shelf.upload(case.uuid, self._gateway)
        return Done(case.uuid, Step.UPLOAD)

    # ---- Refusals ----

    def _decline(self, case: Case, _: int) -> Outcome:
        if case.refused is not None:
            reason = case.refused
            texts = (reason.code.value, reason.needed[:_MOST], reason.offered[:_MOST])
            decline = Decline(self._policy.operator, case.uuid, *texts)
            self._gateway.decline(case.uuid, decline.sign(self._chain.deployment.domain, self._chain.account))
        return Done(case.uuid, Step.DECLINE)

    def _halt(self, case: Case, _: int) -> Outcome:
        self._drain_file.touch()
        return Done(case.uuid, Step.HALT)

    # ---- Checks ----

    def _seed(self, case: Case, _: int) -> Outcome:
        block = case.life.seed_block
        recorded = self._chain.market.seed_of(block) is not None
        return Done(case.uuid, Step.SEED, 0 if recorded else self._chain.market.seed(block).block)

    def _look(self, case: Case, _: int) -> Outcome:
        life, mix = case.life, self._chain.market.seed_of(case.life.seed_block)
        if mix is None or life.executor is None or life.committed_at is None:
            raise ChainError("the seed is gone", fix="A reorganisation took it away; it will be recorded again.")
        seats = (self._chain.market.seat_of(case.uuid, index) for index in range(DRAWS * case.order.verifiers))
        drawn = ((seat.operator, seat.since) for seat in seats)
        return Looked(case.uuid, candidacy_of(mix, drawn, self._policy.operator, life.executor, life.committed_at))

    def _answer(self, case: Case) -> Mined:
        assert case.candidacy is not None and case.candidacy.index is not None
        index = case.candidacy.index
        hidden = self._commitment(case, index + 1)
        return self._chain.market.answer(self._policy.operator, case.order, index, hidden)

    def _reveal(self, case: Case) -> Mined:
        assert case.seal is not None
        opening = Opening(case.uuid, case.seal.outputs_root, case.seal.salt, self._slot(case))
        return self._chain.market.reveal(case.order, opening)

    def _show(self, case: Case) -> Mined:
        assert case.demand is not None
        leaves = case.demand.leaves
        program = fetch_program(self._gateway, case.order)
        return self._chain.market.show(case.order, leaves, self._shelf.prove(case.uuid, program, leaves))

    def _commitment(self, case: Case, slot: int) -> bytes:
        assert case.seal is not None
        return commitment(
            self._policy.domain, case.uuid, self._policy.operator, slot, case.seal.outputs_root, case.seal.salt
        )

    def _slot(self, case: Case) -> int:
        """Of the operator's own commitment: the executor's, or its answer's."""
        answer = case.life.answer_by(self._policy.operator)
        return 0 if answer is None else answer.index + 1


def reason_of(error: Exception) -> Reason:
    """What an error means for a task; lasting where the same would happen again."""
    text = _text(error)
    match error:
        case OSError() | MemoryError() | sqlite3.Error():
            return Reason(Code.MEMORY, "disk and memory that this machine gives", text, lasting=False)
        case WrongBits():
            return Reason(Code.DEVICE, "the reference's bits", text)
        case ClusterError():
            return Reason(Code.CLUSTER, "a cluster that answers", text, lasting=False)
        case ExecutionError():
            return Reason(Code.EXECUTION, "a program that ends within its limits", text)
        case NotDisputable():
            return Reason(Code.DISPUTE, "a program that a dispute can be about", text)
        case ProgramError():
            return Reason(Code.PROGRAM, "a valid program", text)
        case BindingError():
            return Reason(Code.BINDINGS, "tensors and variables that fit the program", text)
        case BlobTooLarge():
            return Reason(Code.MEMORY, "smaller blobs", text, lasting=False)  # so a gateway says
        case TensorFileError():
            return Reason(Code.DATA, "a safetensors file", text)
        case StoreError():
            return Reason(Code.DATA, "the blobs that the order names", text, lasting=False)
        case ChainError():
            return Reason(Code.CHAIN, "the market's consent", text, lasting=False)
        case _:
            return Reason(Code.EXECUTION, "no error", text)


def _text(error: Exception) -> str:
    return " ".join((str(error) or repr(error)).split())


def admission_of(operators: bytes) -> Admission:
    """The proof that the order admits this operator; empty where it admits everybody."""
    return Admission() if operators == NONE else Admission(0, 1)
