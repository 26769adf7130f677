"""A Python function of Tensors → a program: its arguments become inputs, the tensors of its model weights."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from types import ModuleType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from tinygrad import Tensor, dtypes, nn
from tinygrad.engine.jit import JitError
from tinygrad.uop.ops import UOp

from eigentensor.capture import adapter
from eigentensor.capture.arrays import INSTEAD, uses_numpy
from eigentensor.capture.context import named_outputs
from eigentensor.capture.convert import dtype_of
from eigentensor.capture.graph import Outside, cloned, compiled, static_shape
from eigentensor.capture.lines import defined_at, is_library, raised_at
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.lowering.kernel import located
from eigentensor.lowering.shards import Shards
from eigentensor.program.model import Kind, Role, Variable
from eigentensor.talk import doing, each

G = TypeVar("G")


@adapter.refusing("it cannot be captured")
def capture(
    function: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any],
    model: Any = None,
    *,
    variables: Mapping[str, tuple[int, ...]] | None = None,
    max_repeat: int = 1,
    cast: Literal["float32"] | None = None,
    fingerprint: bool = True,
    shards: Shards = 1,
) -> GraphProgram:
    """The program of a function of Tensors that returns a Tensor, several, or a dict of them.

    Example inputs (Tensors or arrays, by position or by parameter name) give names, shapes and types; nothing is run.
    Tensors of `model` (an object or a state dict), or else of what the function refers to, become weights; those that
    it assigns to become states, also where it makes them on its first call. `variables` bind parameters to (minimum,
    maximum) or (minimum, maximum, stride). `cast="float32"` takes inputs, weights and states of float64 as float32:
    which, is in the program's `cast`. An order may repeat the program up to `max_repeat` times: states are fed back,
    variables move by their stride.
    `shards=C`, a power of two, cuts reductions over axis 0 of the inputs into C equal shards, so that up to C workers
    that own rows share the work with the same bits; `shards={"x": (1, C)}` names inputs or states and their axes.
    Raises CaptureError, with the line of the function where it is known.
    """
    function = adapter.without_jit(function)
    inputs = inputs_of(function, example_inputs)
    bounds = [Variable(name, *limits) for name, limits in (variables or {}).items()]

    def captured(tensors: Mapping[str, Tensor]) -> Attempt[GraphProgram]:
        return _captured(function, inputs, tensors, bounds, cast, fingerprint, shards)

    return settled(function, model, captured).repeatable(max_repeat)


class Attempt(NamedTuple, Generic[G]):
    """What a function was captured to; which tensors that uses, by name; whether it draws random numbers."""

    result: G
    names: Set[str]
    is_random: bool


def settled(function: Callable[..., Any], model: Any, captured: Callable[[Mapping[str, Tensor]], Attempt[G]]) -> G:
    """What `captured` makes of the tensors of a model, or of the function: as they are after a first call, if that
    makes some, and with tinygrad's random numbers, if it draws some without a seed of its own.

    Raises CaptureError if a name has another tensor after each call.
    """
    source, has_model = (function, False) if model is None else (model, True)
    before = tensors_of(source, has_model=has_model)
    attempt = captured(before)
    every = tensors_of(source, has_model=has_model, every=True)
    now = {name: tensor for name, tensor in every.items() if adapter.has_value(tensor)}
    with located(defined_at(function)):
        require_kept(before, every, attempt.names - now.keys())
    if attempt.is_random or len(now) > len(before) or replaced(before, now):
        # made on the first call, and there on each other
        attempt = captured(now | (adapter.random_state() if attempt.is_random else {}))
        last = tensors_of(source, has_model=has_model)
        with located(defined_at(function)):
            require_kept(before, last, attempt.names & {*replaced(now, last)})
    return attempt.result


def replaced(before: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> list[str]:
    """The names that have another tensor, of another value, than they had."""
    return [name for name, tensor in before.items() if name not in now or now[name].uop is not tensor.uop]


def require_kept(before: Mapping[str, Tensor], now: Mapping[str, Tensor], lost: Set[str]) -> None:
    """Raises CaptureError if a call gives names that are used other tensors; those then have the values from before."""
    if not (names := sorted(lost & before.keys())):
        return
    known = set(map(id, before.values()))
    for name, tensor in before.items():
        if name in now and id(now[name]) not in known:
            now[name].uop = tensor.uop
    raise CaptureError(
        f"the function gives {names[0]!r} another tensor, which its next call would find",
        fix=f"assign to it: {names[0]}.assign(new)",
    )


def _captured(
    function: Callable[..., Any],
    inputs: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    bounds: Sequence[Variable],
    cast: str | None,
    fingerprint: bool,
    shards: Shards,
) -> Attempt[GraphProgram]:
    examples = {name: _taken(e, cast) for name, e in inputs.items()}
    converted = {name: _taken(t, cast) for name, t in tensors.items()}
    casts = [n for n, t in {**inputs, **tensors}.items() if _taken(t, cast) is not t]
    typed = [(name, tensor) for name, tensor in converted.items() if tensor.dtype not in dtypes.weaks]
    data = {name: adapter.contents(tensor) for name, tensor in each("computing the model's tensors", typed)}
    with adapter.recording() as recording:
        arguments = bind(recording, bounds, tensors)
        arguments |= {name: placeholder(name, e) for name, e in examples.items()}
        outside = {adapter.buffer_of(arguments[name]): _outside(Role.INPUT, name, e) for name, e in examples.items()}
        for name in data:
            recording.stand_in(name, tensors[name], placeholder(name, converted[name]))
        held = {name: (tensor.uop, adapter.buffer_of(tensor)) for name, tensor in tensors.items()}
        doing("running the function")
        with located(defined_at(function)):
            outputs = named_outputs(called(function, arguments))
        results = {(Kind.OUTPUT, name): tensor for name, tensor in outputs.items()}
        changed = [name for name, (uop, _) in held.items() if tensors[name].uop is not uop]
        if weak := [name for name in changed if name not in data]:
            raise CaptureError(f"{weak[0]!r} is assigned but has no type", fix="give it one: Tensor(…, dtype=…)")
        clones = cloned(results | _new(changed, tensors))
        # What is stored to without an assignment, by `uop.store` and `after`, is known once all is scheduled.
        written = recording.written()
        stored = [name for name in data if name not in changed and held[name][1] in written]
        recording.require_states(written, recording.used())
        clones |= cloned(_new(stored, tensors))
        for name in data:
            role = Role.STATE if name in (*changed, *stored) else Role.WEIGHT
            outside[held[name][1]] = _outside(role, name, tensors[name], data[name])
    with located(defined_at(function)):
        program = compiled(recording, clones, outside, bounds, fingerprint, shards)
    program = replace(program, cast=tuple(f"the tensor {name!r}" for name in casts))
    return Attempt(program, {*program.weights, *program.states}, bool(recording.counters))


def bind(recording: adapter.Recording, bounds: Iterable[Variable], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The variables of a function, bound while it is recorded, and what there is of random numbers in their place."""
    recording.name(tensors.values())
    recording.bound = {v.name: v.minimum for v in bounds}
    if adapter.RANDOM_COUNTER in tensors:
        Tensor._device_seeds[adapter.DEVICE] = tensors[adapter.RANDOM_SEED]
        recording.counters[adapter.DEVICE] = tensors[adapter.RANDOM_COUNTER]
    return {v.name: UOp.variable(v.name, v.minimum, v.maximum).bind(v.minimum) for v in bounds}


def _taken(tensor: Tensor, cast: str | None) -> Tensor:
    return tensor.cast(dtypes.float32) if cast == "float32" and tensor.dtype is dtypes.float64 else tensor


def _new(names: Iterable[str], tensors: Mapping[str, Tensor]) -> dict[tuple[Kind, str], Tensor]:
    return {(Kind.STATE, name): tensors[name] for name in names}


def _outside(role: Role, name: str, tensor: Tensor, data: bytes | None = None) -> Outside:
    if tensor.dtype is dtypes.float64:
        cast = f'cast it: {name}.cast("float32"), or {name}.astype("float32") in NumPy; all: capture(…, cast="float32")'
        what = f"the {role.name.lower()} {name!r}: float64 cannot be in a program"
        raise CaptureError(what, fix=cast, topic="cast")
    return Outside(role, name, static_shape(tensor, name), dtype_of(tensor.dtype), data)


_FAILS = "the function itself fails on tensors of these shapes"


def placeholder(name: str, tensor: Tensor) -> Tensor:
    """What stands for a tensor while a function is captured."""
    return adapter.placeholder(f"{name!r} of a captured function", static_shape(tensor, name), tensor.dtype)


def called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """What the user's function gives for arguments by name.

    Raises CaptureError, with the user's line, for whatever goes wrong in it.
    """
    parameters = inspect.signature(function).parameters.values()
    positional = [arguments[p.name] for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in arguments]
    names = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
    try:
        return function(*positional, **{name: value for name, value in arguments.items() if name not in names})
    except CaptureError:
        raise
    except JitError as error:
        fix = "move .item(), .numpy() and .tolist() out of the function"
        what = "the value of a tensor is read while the program is made"
        raise CaptureError(what, fix=fix, line=raised_at(error)) from error
    except Exception as error:
        fix = f"if NumPy is at work there, {INSTEAD}" if uses_numpy(function) else _FAILS
        what = f"{type(error).__name__}: {error}"
        raise CaptureError(what, fix=fix, line=raised_at(error)) from error


def inputs_of(function: Callable[..., Any], examples: Sequence[Any] | Mapping[str, Any]) -> dict[str, Tensor]:
    """Example inputs by the names of the function's parameters, as tensors.

    Raises CaptureError if there are more than parameters.
    """
    if not isinstance(examples, Mapping):
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
        if len(names) < len(examples):
            raise CaptureError(f"{len(examples)} example inputs for parameters {names}", fix="give them by name")
        examples = dict(zip(names, examples, strict=False))
    return {name: e if isinstance(e, Tensor) else Tensor(np.asarray(e)) for name, e in examples.items()}


def tensors_of(source: Any, *, has_model: bool, every: bool = False) -> dict[str, Tensor]:
    """Tensors by name, each once; of a function those that its closure, its globals or its object hold.

    Those without a value, which a captured function has left, are among them only if `every` one is asked for.
    """
    tensors = _state(source) if has_model else _of_function(source)
    named: dict[int, str] = {}
    return {
        name: t
        for name, t in tensors.items()
        if named.setdefault(id(t), name) == name and (every or adapter.has_value(t))
    }


def _of_function(function: Any) -> dict[str, Tensor]:
    seen: set[int] = set()
    holders = _holders(function, seen)
    states = {name: state for name, holder in holders.items() if (state := _state(holder, f"{name}."))}
    if len(states) == 1 and not isinstance(holder := holders[next(iter(states))], Tensor):
        return _state(holder)
    return {name: tensor for state in states.values() for name, tensor in state.items()}


def _state(holder: Any, prefix: str = "") -> dict[str, Tensor]:
    try:
        return dict(nn.state.get_state_dict(holder, prefix))
    except RecursionError:
        return {}  # an object that refers to itself is no model


def _holders(function: Any, seen: set[int]) -> dict[str, Any]:
    """Objects that a function refers to by name; functions among them are looked into as well."""
    if id(function) in seen:
        return {}
    seen.add(id(function))
    if not inspect.isfunction(inspect.unwrap(function)):
        owner = getattr(function, "__self__", function)
        return {} if isinstance(owner, ModuleType | type) else {"": owner}
    refers = inspect.getclosurevars(inspect.unwrap(function))
    holders: dict[str, Any] = {}
    named = {**refers.globals, **refers.nonlocals}
    models_first = sorted(named, key=lambda name: isinstance(named[name], nn.optim.Optimizer))
    for name in models_first:
        value = adapter.without_jit(inspect.unwrap(adapter.without_jit(named[name])))
        if inspect.isroutine(value):
            holders |= {n or name: h for n, h in _holders(value, seen).items()} if _is_of_user(value) else {}
        elif not isinstance(value, ModuleType | type):
            holders[name] = value
    return holders


def _is_of_user(function: Any) -> bool:
    plain = inspect.unwrap(function)
    code = getattr(getattr(plain, "__func__", plain), "__code__", None)
    return code is not None and not is_library(code.co_filename)
