"""The moves of a game, as their players send them and `rules` apply them."""

from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from eigentensor.abi import encode
from eigentensor.dispute.encoding import call_bytes, collect_bytes, kernel_bytes, result_bytes, witness_bytes
from eigentensor.tracing import CallProof, Claim, CollectProof, Kernel, ResultProof, Witness


@dataclass(frozen=True, slots=True)
class Descent:
    """A node below the current one: its number within its level, and the siblings from it up to the current tree."""

    index: int = 0
    child: bytes = bytes(32)
    path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """An element of the shown leaf.

    `word` are the leaf's 32 bytes that hold it, followed by the results of all elements in them; `path` leads from its
    hash to the position's node.
    """

    element: int
    word: bytes
    path: tuple[bytes, ...]


class _Sent(ABC):
    """A move as a message: the contract's function of `DisputeGame` that takes it."""

    __slots__ = ()
    function: ClassVar[str]

    @abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """What the function takes after the game and the position, in ABI types: structs are tuples, proofs bytes."""


class _Published(_Sent):
    """An executor's move, which makes known what its challenger goes on from."""

    __slots__ = ()

    @abstractmethod
    def published(self) -> bytes:
        """The data of the contract's `Moved` event: `Published` reads it again."""


@dataclass(frozen=True, slots=True)
class Publish(_Published):
    """`order` is the order as the contract takes it; `claim` is what it, the market and the trace give together.

    `children` are nodes of the trace, as of a `Descend`; `path` are the siblings left of the outputs root on its way to
    the last of them.
    """

    function: ClassVar = "publish"
    order: tuple[Any, ...]
    claim: Claim
    header: bytes
    records_root: bytes
    children: tuple[bytes, ...]
    path: tuple[bytes, ...]

    def arguments(self) -> tuple[Any, ...]:
        return self.order, self.header, self.records_root, list(self.children), list(self.path)

    def published(self) -> bytes:
        return encode(["bytes32[]"], [self.children])


@dataclass(frozen=True, slots=True)
class PickCall(_Sent):
    """The call whose result is rejected; with a path in `descent` it goes on below the root as `PickNode` does."""

    function: ClassVar = "pickCall"
    claim: Claim
    proof: CallProof
    descent: Descent = Descent()

    def arguments(self) -> tuple[Any, ...]:
        proof = self.proof
        return astuple(self.claim), proof.number, proof.root, call_bytes(proof), astuple(self.descent)


@dataclass(frozen=True, slots=True)
class Collect(_Sent):
    """The end: whether the outputs root is what the call roots imply."""

    function: ClassVar = "collect"
    claim: Claim
    proof: CollectProof

    def arguments(self) -> tuple[Any, ...]:
        return astuple(self.claim), collect_bytes(self.proof)


@dataclass(frozen=True, slots=True)
class AskOutputs(_Sent):
    """`Collect` bit by bit, where its proof fits no transaction."""

    function: ClassVar = "askOutputs"

    def arguments(self) -> tuple[Any, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class ShowOutputs(_Published):
    """The leaves of the trees over outputs and states by name."""

    function: ClassVar = "showOutputs"
    claim: Claim
    outputs: tuple[bytes, ...]
    states: tuple[bytes, ...]

    def arguments(self) -> tuple[Any, ...]:
        return astuple(self.claim), list(self.outputs), list(self.states)

    def published(self) -> bytes:
        return encode(["bytes32[]", "bytes32[]"], [self.outputs, self.states])


@dataclass(frozen=True, slots=True)
class JudgeResult(_Sent):
    """A leaf as it was shown, by the number of the result; `other` is the bindings root of the other kind."""

    function: ClassVar = "judgeResult"
    claim: Claim
    shown: Descent
    other: bytes
    proof: ResultProof

    def arguments(self) -> tuple[Any, ...]:
        return astuple(self.claim), astuple(self.shown), self.other, result_bytes(self.proof)


@dataclass(frozen=True, slots=True)
class JudgeCall(_Sent):
    """`PickCall` down to a leaf, which the challenger knows, and `Verdict` on an element without reductions, in one."""

    function: ClassVar = "judgeCall"
    claim: Claim
    proof: CallProof
    descent: Descent
    leaf: bytes
    element: int
    witness: Witness

    def arguments(self) -> tuple[Any, ...]:
        proof, shown = self.proof, (self.leaf, self.element, witness_bytes(self.witness))
        return astuple(self.claim), (proof.number, proof.root, call_bytes(proof), astuple(self.descent), *shown)


@dataclass(frozen=True, slots=True)
class Descend(_Published):
    """The nodes `levels` below the current one, without those that stand for padding alone."""

    function: ClassVar = "descend"
    levels: int
    children: tuple[bytes, ...]

    def arguments(self) -> tuple[Any, ...]:
        return self.levels, list(self.children)

    def published(self) -> bytes:
        return encode(["bytes32[]"], [self.children])


@dataclass(frozen=True, slots=True)
class PickNode(_Sent):
    """An opened node that is rejected, or one further down if the challenger knows the way."""

    function: ClassVar = "pickNode"
    descent: Descent

    def arguments(self) -> tuple[Any, ...]:
        return (astuple(self.descent),)


@dataclass(frozen=True, slots=True)
class ShowLeaf(_Published):
    """`results` are those of the reductions of each element in the leaf, packed, element by element."""

    function: ClassVar = "showLeaf"
    leaf: bytes
    results: bytes

    def arguments(self) -> tuple[Any, ...]:
        return self.leaf, self.results

    def published(self) -> bytes:
        return encode(["bytes", "bytes"], [self.leaf, self.results])


@dataclass(frozen=True, slots=True)
class PickReduction(_Sent):
    """A reduction with its kernel; or FINAL, without."""

    function: ClassVar = "pickReduction"
    entry: Entry
    reduction: int
    kernel: Kernel | None

    def arguments(self) -> tuple[Any, ...]:
        return astuple(self.entry), self.reduction, b"" if self.kernel is None else kernel_bytes(self.kernel)


@dataclass(frozen=True, slots=True)
class ClaimBorders(_Published):
    """`values` are accumulators, packed."""

    function: ClassVar = "claimBorders"
    values: bytes

    def arguments(self) -> tuple[Any, ...]:
        return (self.values,)

    def published(self) -> bytes:
        return encode(["bytes"], [self.values])


@dataclass(frozen=True, slots=True)
class PickSpan(_Sent):
    """A span whose end is rejected, by number; `values` are all borders that the executor claimed, packed."""

    function: ClassVar = "pickSpan"
    span: int
    values: bytes

    def arguments(self) -> tuple[Any, ...]:
        return self.span, self.values


@dataclass(frozen=True, slots=True)
class Verdict(_Sent):
    """`results` are those claimed for the element's reductions, packed."""

    function: ClassVar = "verdict"
    claim: Claim
    results: bytes
    witness: Witness

    def arguments(self) -> tuple[Any, ...]:
        return astuple(self.claim), self.results, witness_bytes(self.witness)


@dataclass(frozen=True, slots=True)
class JudgeFinal(_Sent):
    """`PickReduction` of the final expression and `Verdict` in one."""

    function: ClassVar = "judgeFinal"
    entry: Entry
    claim: Claim
    witness: Witness

    def arguments(self) -> tuple[Any, ...]:
        return astuple(self.entry), astuple(self.claim), witness_bytes(self.witness)


@dataclass(frozen=True, slots=True)
class JudgeSpan(_Sent):
    """`PickSpan` of one step and `Verdict` in one."""

    function: ClassVar = "judgeSpan"
    span: int
    values: bytes
    claim: Claim
    results: bytes
    witness: Witness

    def arguments(self) -> tuple[Any, ...]:
        return self.span, self.values, astuple(self.claim), self.results, witness_bytes(self.witness)


ExecutorMove = Publish | ShowOutputs | Descend | ShowLeaf | ClaimBorders
Pick = PickCall | AskOutputs | PickNode | PickReduction | PickSpan
Judge = Collect | JudgeResult | JudgeCall | Verdict | JudgeFinal | JudgeSpan
Move = ExecutorMove | Pick | Judge
