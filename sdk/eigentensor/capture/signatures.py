"""A function as its caller sees it → a program for each kind of arguments, and all that a call of it needs."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from threading import Lock
from types import MethodType
from typing import Any

from tinygrad import Tensor
from tinygrad.helpers import TRAINING
from tinygrad.uop.ops import UOp

from eigentensor.capture import adapter
from eigentensor.capture.arguments import device_of, limits_of, other_in, take_arguments
from eigentensor.capture.arrays import no_tensor
from eigentensor.capture.assignments import written_in
from eigentensor.capture.function import capture, replaced, require_kept, tensors_of
from eigentensor.capture.lines import defined_at
from eigentensor.capture.returns import Returns
from eigentensor.capture.structure import put_together, rest_of, take_apart
from eigentensor.capture.unseen import argument_assigned
from eigentensor.capture.values import Values, same_bits, values_of
from eigentensor.errors import BindingError, CaptureError
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.lowering.shards import Shards
from eigentensor.program.model import Role


@dataclass(eq=False, slots=True)
class Captured:
    """A function's program for one kind of arguments; `result` is the structure of what it returns.

    `weights` are those of the last call: the same object as long as no value of theirs changes. `root` is for whoever
    has given them away to remember their name, and empty when they change; `executable` for whoever runs it.
    """

    graph: GraphProgram
    result: Any
    weights: Values
    root: bytes = b""
    executable: Any = None

    @property
    def assigned(self) -> tuple[str, ...]:
        """The names of the tensors that the function assigns to."""
        return tuple(self.graph.program.named(Role.STATE))

    def look(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes the present values of the weights."""
        now = {name: values_of(tensors[name]) if name in tensors else old for name, old in self.weights.items()}
        if any(not same_bits(now[name], old) for name, old in self.weights.items()):
            self.weights, self.root = now, b""


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a function: its program, and the present values of all tensors that this needs; `names` are the
    function's own names of what is outside."""

    captured: Captured
    inputs: Values
    weights: Values
    states: Values
    variables: dict[str, int]
    returns: Returns
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Programs:
    """Those of one function by their kind of arguments; `calling` is held while a call assigns to its tensors,
    `compiling` while one is made executable."""

    by_kind: dict[Any, Captured] = field(default_factory=dict)
    calling: Lock = field(default_factory=Lock)
    compiling: Lock = field(default_factory=Lock)


class Signatures:
    """The programs of one function, each captured when its kind of arguments first comes: names, shapes and dtypes of
    tensors, values of all else, and the tensors that the function refers to."""

    def __init__(self, function: Callable[..., Any], programs: Programs | None = None, shards: Shards = 1) -> None:
        """`function` may be a method, a callable object, or wrapped by TinyJit. `programs` are those so far, `shards`
        what `capture` takes.

        Raises BindingError for what is no function that returns Tensors.
        """
        self.function = _plain(function)
        self.shards = shards
        kind = type(self.function)
        self.name = str(getattr(self.function, "__name__", kind.__name__))
        self.qualified = str(getattr(self.function, "__qualname__", kind.__qualname__))
        self.module = str(getattr(self.function, "__module__", kind.__module__))
        try:
            self.signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            raise BindingError(f"{function!r} is no function", fix="Decorate one, below @classmethod.") from None
        if any(is_kind(self.function) for is_kind in _LATER):
            raise BindingError(
                f"{self.name} does not return when it is called", fix="Write it without async and yield."
            )
        self.programs = programs or Programs()

    def uses(self, calls: Sequence[tuple[Sequence[Any], Mapping[str, Any]]]) -> list[Use]:
        """Calls, by their positional and named arguments; weights are looked at once for all of them.

        Raises BindingError for arguments that are none of the function, CaptureError.
        """
        with adapter.LOCK:
            if adapter.is_recording():
                raise CaptureError(
                    f"a call of {self.name} as a task, from within a function that is captured itself",
                    fix=f"Call {self.name}(…) there: it becomes a part of the program.",
                )
            tensors = self.tensors()
            known, looked = list(self.programs.by_kind), dict[Captured, Values]()
            uses = [self._use(*call, tensors, looked) for call in calls]
            if len(self.programs.by_kind) > len(known):
                uses = self._settled(calls, uses, tensors, known)
            return uses

    def _settled(
        self,
        calls: Sequence[tuple[Sequence[Any], Mapping[str, Any]]],
        uses: list[Use],
        before: Mapping[str, Tensor],
        known: Sequence[Any],
    ) -> list[Use]:
        """Calls of which one was captured just now: the first call may have made what others find.

        Raises CaptureError, and forgets what is not `known`, if calls give names other tensors each time.
        """
        now = self.tensors()
        try:
            require_kept(before, self.tensors(every=True), _names(uses) - now.keys())
            if len(now) > len(before) or replaced(before, now):
                looked = dict[Captured, Values]()
                uses, last = [self._use(*call, now, looked) for call in calls], self.tensors()
                require_kept(before, last, _names(uses) & {*replaced(now, last)})
        except CaptureError:
            for kind in self.programs.by_kind.keys() - known:
                del self.programs.by_kind[kind]
            raise
        return uses

    def _use(
        self,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        looked: dict[Captured, Values],
    ) -> Use:
        structure, inputs, variables = take_arguments(self.name, self.signature, positional, named)
        taken = {*inputs, *variables}
        names = {name if name not in taken else f"weight.{name}": name for name in tensors}
        outside = {name: tensors[own] for name, own in names.items()}
        captured = self._captured(structure, inputs, variables, outside)
        if adapter.RANDOM_COUNTER in captured.assigned:
            outside |= adapter.random_state()
            names |= {name: name for name in adapter.random_state()}
        if captured not in looked:
            captured.look(outside)
            looked[captured] = {name: values_of(outside[name]) for name in captured.assigned}
        program, assigned = captured.graph.program, captured.assigned
        return Use(
            captured,
            {name: values_of(inputs[name]) for name in program.named(Role.INPUT)},
            captured.weights,
            looked[captured],
            {v.name: int(variables[v.name].unbind()[1]) for v in program.variables},
            Returns(
                captured.result,
                device_of(inputs),
                {name: names[name] for name in assigned},
                {name: outside[name] for name in assigned},
            ),
            names,
        )

    def tensors(self, every: bool = False) -> dict[str, Tensor]:
        """What the function refers to now, with `every` tensor that has no value."""
        owner = getattr(self.function, "__self__", self.function)
        if inspect.isfunction(inspect.unwrap(self.function)):
            return tensors_of(self.function, has_model=False, every=every)
        return tensors_of(owner, has_model=True, every=every)

    def _captured(
        self, structure: Any, inputs: Mapping[str, Tensor], variables: Mapping[str, UOp], outside: Mapping[str, Tensor]
    ) -> Captured:
        limits = {name: limits_of(variable) for name, variable in variables.items()}
        kinds = (tuple((name, t.shape, t.dtype) for name, t in part.items()) for part in (inputs, outside))
        key = (rest_of(structure), tuple(limits.items()), *kinds, bool(TRAINING), rest_of(self.shards))
        programs = self.programs.by_kind
        if key not in programs:
            results: list[Any] = []
            function = self._flat(structure, results)
            graph = capture(function, dict(inputs), dict(outside), variables=limits, shards=self.shards)
            programs[key] = Captured(graph, results[-1], dict(graph.weights))
        return programs[key]

    def _flat(self, structure: Mapping[str, Any], results: list[Any]) -> Callable[..., dict[str, Tensor]]:
        """The function of named tensors that returns named tensors; their structure goes into `results`."""

        @wraps(self.function)
        def flat(**leaves: Any) -> dict[str, Tensor]:
            bound = inspect.BoundArguments(self.signature, put_together(structure, leaves))
            before = {name: leaf.uop for name, leaf in leaves.items() if isinstance(leaf, Tensor)}
            returned = self.function(*bound.args, **bound.kwargs)
            result, tensors = take_apart(returned, "output", lambda leaf: isinstance(leaf, Tensor), _output)
            if (other := other_in(result, "output")) is not None:
                raise no_tensor(f"{self.name} returns", other, "Return Tensors, numbers and words.")
            if not tensors:
                raise CaptureError(f"{self.name} returns no Tensor", fix="Return at least one.")
            ends = written_in(UOp.sink(*(tensor.uop for tensor in tensors.values())))
            for name, uop in before.items():
                if leaves[name].uop is not uop or adapter.viewed(uop) in ends:
                    raise argument_assigned(name, defined_at(self.function))
            results.append(result)
            return tensors

        flat.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return flat


def _names(uses: Sequence[Use]) -> set[str]:
    """The function's own names of the tensors that programs use."""
    return {use.names[name] for use in uses for name in (*use.weights, *use.states) if name in use.names}


#: What tells functions that return something else than what they compute.
_LATER = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def _plain(function: Any) -> Any:
    """A function or method as it is without TinyJit."""
    if isinstance(function, partial):  # what a method that TinyJit wraps looks like
        jit = getattr(function.func, "__self__", None)
        if (inner := adapter.without_jit(jit)) is not jit:
            return MethodType(inner, *function.args)
    if isinstance(function, MethodType):
        return MethodType(adapter.without_jit(function.__func__), function.__self__)
    return adapter.without_jit(function)


def _output(name: str, key: Any) -> str:
    if name != "output":
        return f"{name}.{key}"
    return key if isinstance(key, str) else f"output_{key}"
