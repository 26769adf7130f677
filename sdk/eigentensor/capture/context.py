"""Graphs built tensor by tensor: named placeholders, weights, states and variables, compiled to a program."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.dtype import DTypeLike, strong_dtype, to_dtype
from tinygrad.uop.ops import Ops, UOp

from eigentensor.capture import adapter
from eigentensor.capture.arrays import no_tensor
from eigentensor.capture.convert import dtype_of
from eigentensor.capture.graph import Outside, cloned, compiled, static_shape
from eigentensor.capture.lines import user_line
from eigentensor.capture.unseen import unnamed
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.lowering.kernel import located
from eigentensor.lowering.shards import Shards
from eigentensor.program.model import Kind, Role, Variable


class TensorContext:
    """Collects the named parts of a graph. Tensors that it returns work like any other of tinygrad.

    A context can be compiled again and again, to different outputs; a state takes its new value by assignment.
    """

    def __init__(self) -> None:
        self._outside: dict[Any, Outside] = {}
        self._states: dict[str, tuple[Tensor, Any]] = {}
        self._variables: dict[str, Variable] = {}

    @adapter.refusing("it cannot be captured")
    def add_graph_input(self, name: str, shape: Sequence[int], dtype: DTypeLike = dtypes.float32) -> Tensor:
        """A placeholder for a tensor that each order brings along."""
        return self._placeholder(Role.INPUT, name, tuple(shape), dtype)

    @adapter.refusing("it cannot be captured")
    def add_weight(self, name: str, tensor: Tensor) -> Tensor:
        """Names a tensor that has data: in the program it is a name, a shape and a type. Returns the same tensor."""
        if not tensor.uop.has_buffer_identity():
            tensor.replace(tensor.cast(strong_dtype(tensor.dtype)).clone().realize())
        data = adapter.contents(tensor)
        part = Outside(Role.WEIGHT, name, static_shape(tensor, name), dtype_of(tensor.dtype), data)
        self._add(adapter.buffer_of(tensor), part)
        return tensor

    @adapter.refusing("it cannot be captured")
    def add_state(
        self, name: str, shape: Sequence[int] = (), dtype: DTypeLike = dtypes.float32, *, initial: Tensor | None = None
    ) -> Tensor:
        """A tensor that goes in and comes out: assign its new value, whole or in part. Starts as `initial` or zeros."""
        first = Tensor.zeros(*shape, dtype=dtype) if initial is None else initial
        first = first.cast(strong_dtype(first.dtype))
        state = self._placeholder(Role.STATE, name, static_shape(first, name), first.dtype, adapter.contents(first))
        self._states[name] = (state, state.uop)
        return state

    @adapter.refusing("it cannot be captured")
    def variable(self, name: str, minimum: int, maximum: int, stride: int = 0) -> UOp:
        """An integer that the order binds, for slices, indices and arithmetic; grows by `stride` in each iteration."""
        if name in self._variables:
            raise CaptureError(f"there are two variables named {name!r}", fix="give each one its own name")
        self._variables[name] = Variable(name, minimum, maximum, stride)
        return UOp.variable(name, minimum, maximum).bind(minimum)

    @adapter.refusing("it cannot be captured")
    def compile_to_graph(
        self, *outputs: Tensor | Mapping[str, Tensor], fingerprint: bool = True, shards: Shards = 1
    ) -> GraphProgram:
        """The program that computes the outputs, and the new values of all states, from what was named.

        One output is named "output", several "output_0", "output_1", …; a dict brings its own names. Small results get
        an output `fingerprint` beside them, a checksum over the large intermediates, unless `fingerprint` is False.
        Reductions over axes that `shards` name are cut by shards, as `capture` does it.
        """
        results = {(Kind.OUTPUT, name): tensor for name, tensor in named_outputs(outputs).items()}
        states = {
            (Kind.STATE, name): state for name, (state, before) in self._states.items() if state.uop is not before
        }
        stored = {(Kind.STATE, name): state for name, (state, before) in self._states.items() if state.uop is before}
        with located(user_line()):
            self._require_named([tensor.uop for tensor in (results | stored).values()])
            with adapter.recording() as recording:
                clones = cloned(results | states)
                self._require_written(recording.written(), [name for _, name in stored])
                clones |= cloned(stored)  # by `uop.store` and `after`, without an assignment
            return compiled(recording, clones, self._outside, list(self._variables.values()), fingerprint, shards)

    def _require_named(self, ends: Sequence[Any]) -> None:
        """Raises CaptureError if a tensor without a name takes a value that differs from run to run."""
        for u in UOp.sink(*ends).toposort():
            if u.op is Ops.STORE and (buffer := adapter.viewed(u.src[0])) not in self._outside:
                given = [self._outside[b] for b in adapter.buffers_of(u.src[1]) if b in self._outside]
                if buffer.is_realized and any(part.role in (Role.INPUT, Role.STATE) for part in given):
                    raise unnamed(f"of {buffer.max_numel()} elements", "")

    def _require_written(self, written: Collection[Any], unassigned: Sequence[str]) -> None:
        """Raises CaptureError unless all states have new values, and no weight has one."""
        for buffer, part in self._outside.items():
            if part.role is Role.STATE and part.name in unassigned and buffer not in written:
                what = f"the state {part.name!r} is never assigned"
                raise CaptureError(what, fix="assign its new value, or make it a weight")
            if part.role is Role.WEIGHT and buffer in written:
                raise CaptureError(f"the weight {part.name!r} is assigned", fix="name it with add_state")

    def _placeholder(
        self, role: Role, name: str, shape: tuple[int, ...], dtype: DTypeLike, data: bytes | None = None
    ) -> Tensor:
        what = f"the {role.name.lower()} {name!r} of a TensorContext"
        tensor = adapter.placeholder(what, shape, to_dtype(dtype), device=None)
        self._add(adapter.buffer_of(tensor), Outside(role, name, shape, dtype_of(tensor.dtype), data))
        return tensor

    def _add(self, buffer: Any, part: Outside) -> None:
        if any(other.name == part.name for other in self._outside.values()):
            raise CaptureError(
                f"there are two tensors named {part.name!r}", fix="give each input, weight and state its own name"
            )
        self._outside[buffer] = part


def named_outputs(outputs: Any) -> dict[str, Tensor]:
    """Outputs by name: of a tensor, a sequence of tensors or a dict of them."""
    if isinstance(outputs, Tensor):
        outputs = (outputs,)
    if isinstance(outputs, list | tuple) and len(outputs) == 1 and isinstance(outputs[0], Mapping | list | tuple):
        outputs = outputs[0]
    if isinstance(outputs, Mapping):
        named = dict(outputs)
    elif isinstance(outputs, list | tuple):
        named = {"output": outputs[0]} if len(outputs) == 1 else {f"output_{i}": o for i, o in enumerate(outputs)}
    else:
        named = {"output": outputs}
    for name, tensor in named.items():
        if not isinstance(name, str):
            raise CaptureError(f"an output is named {name!r}, which is no word", fix="give outputs words as names")
        if not isinstance(tensor, Tensor):
            raise no_tensor(f"the output {name!r} is", tensor, "return Tensors only")
    if not named:
        raise CaptureError("there is no output", fix="return at least one Tensor")
    return named
