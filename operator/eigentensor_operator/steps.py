"""Doing what the machine asks for: each step blocks, and comes back as the event that tells how it ended."""

import secrets
from collections.abc import Callable, Mapping

from eigentensor.bound import Bound, fetch_bound, fetch_program
from eigentensor.chain import NONE, Admission, Chain, Decline, Opening, commitment
from eigentensor.errors import (
    BindingError,
    BlobTooLarge,
    ChainError,
    EigenTensorError,
    ExecutionError,
    ProgramError,
    StoreError,
    TensorFileError,
    WrongBits,
)
from eigentensor.store import GatewayClient
from eigentensor_operator.case import Case, Seal, Step
from eigentensor_operator.data import Shelf, needs_of
from eigentensor_operator.device import Device
from eigentensor_operator.events import Done, Executed, Inspected, Undone
from eigentensor_operator.policy import Code, Policy, Reason

Outcome = Inspected | Executed | Done | Undone
_TEXT = 200  # the longest text of a published reason


class Steps:
    """The operator's hands. Steps of different tasks may run at the same time, those of one task never do."""

    def __init__(self, chain: Chain, gateway: GatewayClient, device: Device, shelf: Shelf, policy: Policy) -> None:
        self._chain = chain
        self._gateway = gateway
        self._device = device
        self._shelf = shelf
        self._policy = policy
        self._bound: dict[bytes, Bound] = {}
        self._doing: Mapping[Step, Callable[[Case, int], Outcome]] = {
            Step.INSPECT: self._inspect,
            Step.FETCH: self._fetch,
            Step.DECLINE: self._decline,
            Step.ACCEPT: self._accept,
            Step.EXECUTE: self._execute,
            Step.COMMIT: self._commit,
            Step.REVEAL: self._reveal,
            Step.UPLOAD: self._upload,
            Step.CLOSE: lambda case, _: Done(case.uuid, Step.CLOSE, self._chain.close(case.order).block),
            Step.FAIL: lambda case, _: Done(case.uuid, Step.FAIL, self._chain.fail(case.order).block),
        }

    def do(self, step: Step, case: Case, head: int) -> Outcome:
        """One step of a task at block `head`. Expected errors come back as Undone."""
        try:
            return self._doing[step](case, head)
        except EigenTensorError as error:
            return Undone(case.uuid, step, reason_of(error))

    def ping(self) -> None:
        """Raises StoreError unless the gateway answers."""
        self._gateway.network()

    def forget(self, task: bytes) -> None:
        """Frees what is kept for a task that is over."""
        self._bound.pop(task, None)
        self._shelf.drop(task)

    def _inspect(self, case: Case, _: int) -> Outcome:
        program = fetch_program(self._gateway, case.order)
        return Inspected(case.uuid, needs_of(program, case.order.repeat))

    def _fetch(self, case: Case, _: int) -> Outcome:
        bound = fetch_bound(self._gateway, case.order)
        self._device.compile(bound.program)
        self._bound[case.uuid] = bound
        return Done(case.uuid, Step.FETCH)

    def _decline(self, case: Case, _: int) -> Outcome:
        if case.refused is not None:
            reason = case.refused
            texts = (reason.code.value, reason.needed[:_TEXT], reason.offered[:_TEXT])
            decline = Decline(self._policy.operator, case.uuid, *texts)
            self._gateway.decline(case.uuid, decline.sign(self._chain.deployment.domain, self._chain.account))
        return Done(case.uuid, Step.DECLINE)

    def _accept(self, case: Case, _: int) -> Outcome:
        admission = admission_of(case.order.operators)
        return Done(case.uuid, Step.ACCEPT, self._chain.accept(self._policy.operator, case.order, admission).block)

    def _execute(self, case: Case, head: int) -> Outcome:
        bound = self._bound[case.uuid]
        seconds = max(1, case.deadline(self._policy) - head) * self._policy.block_seconds
        results = self._device.execute(bound, seconds, secrets.token_bytes(32))
        root = self._shelf.keep(case.uuid, bound.program, results)
        salt = secrets.token_bytes(32)
        domain = self._chain.deployment.domain
        hidden = commitment(domain, case.uuid, self._policy.operator, 0, root, salt)
        self._bound.pop(case.uuid)
        return Executed(case.uuid, Seal(root, salt, hidden))

    def _commit(self, case: Case, _: int) -> Outcome:
        assert case.seal is not None
        receipt = self._chain.commit(self._policy.operator, case.uuid, case.seal.commitment)
        return Done(case.uuid, Step.COMMIT, receipt.block)

    def _reveal(self, case: Case, _: int) -> Outcome:
        assert case.seal is not None
        receipt = self._chain.reveal(Opening(case.uuid, case.seal.outputs_root, case.seal.salt))
        return Done(case.uuid, Step.REVEAL, receipt.block)

    def _upload(self, case: Case, _: int) -> Outcome:
        self._shelf.upload(case.uuid, self._gateway)
        return Done(case.uuid, Step.UPLOAD)


def reason_of(error: EigenTensorError) -> Reason:
    """What an error means for a task; lasting where the same would happen again."""
    said = " ".join(str(error).split())
    match error:
        case WrongBits():
            return Reason(Code.DEVICE, "the reference's bits", said)
        case ExecutionError():
            return Reason(Code.EXECUTION, "a program that ends within its limits", said)
        case ProgramError():
            return Reason(Code.PROGRAM, "a valid program", said)
        case BindingError():
            return Reason(Code.BINDINGS, "tensors and variables that fit the program", said)
        case BlobTooLarge():
            return Reason(Code.MEMORY, "smaller blobs", said)
        case TensorFileError():
            return Reason(Code.DATA, "a safetensors file", said)
        case StoreError():
            return Reason(Code.DATA, "the blobs that the order names", said, lasting=False)
        case ChainError():
            return Reason(Code.CHAIN, "the market's consent", said, lasting=False)
        case _:
            return Reason(Code.EXECUTION, "no error", said)


def admission_of(operators: bytes) -> Admission:
    """The proof that the order admits this operator; empty where it admits everybody."""
    return Admission() if operators == NONE else Admission(0, 1)
