"""How a function's calls become programs with tensors, and results what the function returns."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from tinygrad import Context, Tensor, TinyJit, UOp, dtypes, nn

from eigentensor import reference
from eigentensor.capture.signatures import Signatures, Use
from eigentensor.capture.structure import leaves_in, put_together, take_apart
from eigentensor.capture.values import values_of
from eigentensor.errors import BindingError, CaptureError

DEVICE = "CPU"


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32), device=DEVICE)


def use_of(signatures: Signatures, *args: Any, **kwargs: Any) -> Use:
    (use,) = signatures.uses([(args, kwargs)])
    return use


def call(signatures: Signatures, *args: Any, **kwargs: Any) -> Any:
    """What the function returns, by the reference's account."""
    use = use_of(signatures, *args, **kwargs)
    tensors = {**use.inputs, **use.weights, **use.states}
    results = reference.execute(use.captured.graph.program, tensors, use.variables)
    return use.returns.filled(use.captured.graph.program, results.outputs, results.states)


class Net:
    def __init__(self) -> None:
        Tensor.manual_seed(1)
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)
        for weight in nn.state.get_parameters(self):
            weight.to_(DEVICE).realize()

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu())


class Pair(NamedTuple):
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class Scaled:
    x: Any
    factor: float = 2.0


def is_number(value: object) -> bool:
    return isinstance(value, int)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (1, ["x"]),
        ([1, 2], ["x.0", "x.1"]),
        ({"a": 1, "b": ({"c": 2}, None, "d")}, ["x.a", "x.b.0.c"]),
        (Pair(1, [2]), ["x.low", "x.high.0"]),
        (Scaled([1]), ["x.x.0"]),
        ("none", []),
    ],
)
def test_a_structure_is_taken_apart_and_put_together(value: Any, names: list[str]) -> None:
    structure, leaves = take_apart(value, "x", is_number)
    assert list(leaves) == names
    assert put_together(structure, leaves) == value
    assert type(put_together(structure, leaves)) is type(value)


def test_two_leaves_of_one_name_are_refused() -> None:
    with pytest.raises(BindingError, match=r"'x\.a\.b'"):
        take_apart({"a.b": 1, "a": {"b": 2}}, "x", is_number)


def test_a_function_is_captured_once_for_each_kind_of_arguments() -> None:
    signatures = Signatures(lambda x, factor=2: x * factor)
    first = use_of(signatures, tensor(3)).captured
    assert use_of(signatures, tensor(3, seed=1), 2).captured is first
    assert use_of(signatures, x=tensor(3), factor=2).captured is first
    others = [
        use_of(signatures, tensor(4)).captured,
        use_of(signatures, tensor(3).cast(dtypes.half)).captured,
        use_of(signatures, tensor(3), 3).captured,
        use_of(signatures, tensor(3), 2.0).captured,
        use_of(signatures, tensor(3), tensor()).captured,
    ]
    with Context(TRAINING=1):
        others.append(use_of(signatures, tensor(3)).captured)
    assert len({first, *others}) == 7 == len(signatures.programs.by_kind)


def test_a_function_in_shards_is_another_program_of_the_same_arguments() -> None:
    def total(x: Tensor) -> Tensor:
        return x.sum(0)

    x, plain = tensor(4, 3), Signatures(total)
    named = Signatures(total, plain.programs, {"x": (0, 2)})
    captured = [use_of(signatures, x).captured for signatures in (plain, Signatures(total, plain.programs, 2), named)]
    roots = [each.graph.uuid for each in captured]
    assert len(set(captured)) == 3 and roots[1] == roots[2] != roots[0]
    assert call(named, x).tolist() == pytest.approx(call(plain, x).tolist())


def test_weights_are_read_again_and_named_again_only_if_they_change() -> None:
    net = Net()
    signatures = Signatures(lambda x: net(x))
    x = tensor(3, 4)
    before = use_of(signatures, x)
    assert before.weights.keys() == nn.state.get_state_dict(net).keys()
    before.captured.root = b"given away"
    again = use_of(signatures, x)
    assert again.weights is before.weights and again.captured.root
    net.last.bias.assign(net.last.bias + 1).realize()
    after = use_of(signatures, x)
    assert after.captured is before.captured and not after.captured.root
    assert np.array_equal(after.weights["last.bias"], before.weights["last.bias"] + 1)
    net.last = nn.Linear(6, 3)
    assert use_of(signatures, x).captured is not before.captured


def test_what_a_function_assigns_has_its_new_value_afterwards() -> None:
    net, plain = Net(), Net()
    optimizers = [nn.optim.SGD(nn.state.get_parameters(each), lr=0.1, momentum=0.9) for each in (net, plain)]

    def step(which: int, x: Tensor) -> Tensor:
        with Context(TRAINING=1):
            optimizers[which].zero_grad()
            loss = ((net, plain)[which](x) ** 2).mean().backward()
            return loss.realize(*optimizers[which].schedule_step())

    signatures, held = Signatures(TinyJit(lambda x: step(0, x))), net.first.weight
    for seed in range(2):
        x = tensor(5, 4, seed=seed)
        assert np.allclose(call(signatures, x).numpy(), step(1, x).numpy(), rtol=1e-4)
    assert net.first.weight is held
    assert np.allclose(held.numpy(), plain.first.weight.numpy(), rtol=1e-4, atol=1e-6)
    assert len(signatures.programs.by_kind) == 1


class Total:
    def add(self, x: Tensor) -> Tensor:
        if not hasattr(self, "total"):
            self.total = Tensor.zeros(3, device=DEVICE)
        self.total.assign(self.total + x)
        return self.total * 2


def test_a_tensor_that_the_first_call_makes_is_a_state_from_that_call_on() -> None:
    total = Total()
    signatures, x = Signatures(total.add), tensor(3)
    for n in (1, 2, 3):
        assert np.allclose(call(signatures, x).numpy(), 2 * n * x.numpy(), rtol=1e-6)
    assert np.allclose(total.total.numpy(), 3 * x.numpy(), rtol=1e-6)


def test_a_bound_variable_moves_without_another_capture() -> None:
    cache = Tensor.zeros(4, 2, device=DEVICE).contiguous().realize()

    def append(x: Tensor, position: UOp) -> Tensor:
        cache[position : position + 1].assign(x)
        return cache.sum(axis=0)

    signatures, variable = Signatures(append), UOp.variable("position", 0, 3)
    for position in range(3):
        total = call(signatures, Tensor.ones(1, 2, device=DEVICE), variable.bind(position))
        assert total.tolist() == [position + 1] * 2
    assert cache.numpy()[:, 0].tolist() == [1, 1, 1, 0]
    assert len(signatures.programs.by_kind) == 1


def test_results_have_the_structure_the_types_and_the_device_of_the_function() -> None:
    def several(x: Tensor) -> Any:
        return {"pair": Pair(x + 1, x.argmax()), "more": [x[:0], (x.cast(dtypes.bfloat16), "fixed", None)]}

    result = call(Signatures(several), Tensor([1.0, 3.0, 2.0], device=DEVICE))
    assert isinstance(result["pair"], Pair) and result["more"][1][1:] == ("fixed", None)
    whole, half = result["pair"].low, result["more"][1][0]
    assert (whole.tolist(), result["pair"].high.item(), result["more"][0].shape) == ([2, 4, 3], 1, (0,))
    assert half.dtype == dtypes.bfloat16 and values_of(half).tolist() == [0x3F80, 0x4040, 0x4000]
    assert {t.device for t in (whole, half, *result["pair"], result["more"][0])} == {DEVICE}


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (lambda x: x + 1, ["output"]),
        (lambda x: (x + 1, x * 2), ["output_0", "output_1"]),
        (lambda x: {"a": x + 1, "b": [x * 2]}, ["a", "b.0"]),
    ],
)
def test_outputs_have_the_names_that_capture_gives_them(result: Callable[[Tensor], Any], names: list[str]) -> None:
    captured = use_of(Signatures(result), tensor(3)).captured
    assert leaves_in(captured.result) == names
    assert set(captured.graph.program.outputs) - {"fingerprint"} == set(names)


def test_arguments_come_as_python_lets_them() -> None:
    def function(x: Tensor, /, *more: Tensor, last: dict[str, Tensor]) -> Tensor:
        return x + sum(more) + last["a"]

    a, b, c = (np.full(2, n, np.float32) for n in (1, 2, 4))
    assert call(Signatures(function), a, b, Tensor(c), last={"a": np.float32(8)}).tolist() == [15, 15]


def test_an_input_and_a_weight_of_one_name_are_two() -> None:
    layer = nn.Linear(4, 6)
    signatures = Signatures(lambda weight: layer(weight))
    use = use_of(signatures, tensor(3, 4))
    assert use.inputs.keys() == {"weight"} and use.weights.keys() == {"bias", "weight.weight"}


def test_a_method_has_the_tensors_of_its_object() -> None:
    net = Net()
    for signatures in (Signatures(net), Signatures(net.__call__), Signatures(TinyJit(net.__call__))):
        assert use_of(signatures, tensor(3, 4)).weights.keys() == nn.state.get_state_dict(net).keys()


def itself() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((), "missing a required argument: 'x'"),
        ((tensor(3), 1), "too many positional arguments"),
        ((Net.__new__(Net),), "the argument 'x' is a Net"),
        (([tensor(3), object()],), "the argument 'x' is a object"),
        ((np.array(["word"]),), "the argument 'x' is an array of <U4"),
        ((np.ones(3, complex),), "an array of complex128"),
        ((UOp.variable("n", 1, 3),), "the argument 'x' is no bound variable"),
        ((itself(),), "'x' contains itself"),
    ],
)
def test_arguments_that_are_none_are_refused(arguments: tuple[Any, ...], match: str) -> None:
    with pytest.raises(BindingError, match=match):
        Signatures(lambda x: x + 1).uses([(arguments, {})])


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: "words", "returns no Tensor"),
        (lambda x: None, "returns no Tensor"),
        (lambda x: (x + 1, {x}), "returns a set"),
        (lambda x: (x + 1, np.ones(3)), "returns an array of NumPy, whose values do not depend on the inputs"),
    ],
)
def test_what_a_function_returns_is_all_in_its_program_or_refused(function: Callable[..., Any], match: str) -> None:
    with pytest.raises(CaptureError, match=match):
        Signatures(function).uses([((tensor(3),), {})])


async def later(x: Tensor) -> Tensor:
    return x


def one_by_one(x: Tensor) -> Any:
    yield x


@pytest.mark.parametrize("function", [None, "words", classmethod(lambda cls, x: x), later, one_by_one])
def test_what_is_no_function_of_tensors_is_refused(function: Any) -> None:
    with pytest.raises(BindingError, match=r"is no function|does not return"):
        Signatures(function)


def test_an_array_of_another_byte_order_has_the_same_values() -> None:
    for order in "<>":
        assert call(Signatures(lambda x: x + 1), np.arange(3, dtype=order + "f4")).tolist() == [1, 2, 3]


def test_numbers_that_are_equal_are_of_two_kinds_if_their_bits_differ() -> None:
    signatures = Signatures(lambda x, sign: x * math.copysign(2, sign))
    assert [call(signatures, np.ones(1, np.float32), sign).item() for sign in (0.0, -0.0)] == [2, -2]
    for _ in range(2):
        use_of(signatures, tensor(1), float("nan"))
    assert len(signatures.programs.by_kind) == 3


def test_dataclasses_go_in_and_come_out() -> None:
    signatures = Signatures(lambda scaled: Scaled([scaled.x * scaled.factor], 3.0))
    result = call(signatures, Scaled(Tensor([1.0, 2.0], device=DEVICE)))
    assert isinstance(result, Scaled) and (result.x[0].tolist(), result.factor) == ([2, 4], 3.0)


WEIGHT = Tensor([4.0, 5.0], device=DEVICE).realize()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x, [1, 2]),
        (lambda x: WEIGHT, [4, 5]),
        (lambda x: Tensor([7.0, 8.0]), [7, 8]),
        (lambda x: Tensor(np.arange(2, dtype=np.float32)).reshape(2, 1), [[0], [1]]),
        (lambda x: Tensor(np.arange(5000, dtype=np.float32))[::4999], [0, 4999]),
        (partial(lambda y, x: x - y, 1.0), [0, 1]),
        (partial(lambda x, *, y: x - y, y=WEIGHT), [-3, -3]),
    ],
)
def test_a_function_may_return_what_it_has(function: Callable[[Tensor], Tensor], expected: list[float]) -> None:
    assert call(Signatures(function), Tensor([1.0, 2.0], device=DEVICE)).tolist() == expected


def test_large_data_may_be_returned_as_they_are() -> None:
    data = np.arange(5000, dtype=np.float32)
    assert np.array_equal(call(Signatures(lambda: Tensor(data))).numpy(), data)


def test_a_tensor_on_several_devices_is_one() -> None:
    parts = Tensor([1.0, 2.0, 3.0, 4.0], device="CPU").shard(("CPU:1", "CPU:2"), axis=0).realize()
    assert call(Signatures(lambda x: x + 1), parts).tolist() == [2, 3, 4, 5]


def test_a_call_within_a_captured_function_is_refused() -> None:
    inner = Signatures(lambda x: x + 1)
    use_of(inner, tensor(3))
    with pytest.raises(CaptureError, match="from within a function that is captured itself"):
        use_of(Signatures(lambda x: use_of(inner, x) and x), tensor(3))


def test_threads_that_call_a_function_capture_it_once() -> None:
    net = Net()
    signatures = Signatures(lambda x: net(x))
    inputs = [tensor(3, 4, seed=seed) * 2 for seed in range(8)]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda x: call(signatures, x), inputs))
    assert len(signatures.programs.by_kind) == 1
    for x, y in zip(inputs, results, strict=True):
        assert y.numpy().tobytes() == call(signatures, x).numpy().tobytes()
