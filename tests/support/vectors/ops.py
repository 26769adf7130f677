"""What capture makes of each public method of tinygrad's Tensor: the rows of tests/vectors/ops.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tinygrad import Context, Tensor, UOp, dtypes
from tinygrad.uop.ops import KernelInfo, Ops

from eigentensor import reference
from eigentensor.capture.function import capture
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import GraphProgram
from support.programs.tensor_methods import EXAMPLES, INPUTS, NOT_COMPUTED, NOT_SCHEDULED, Example

TABLE = Path(__file__).parents[2] / "vectors" / "ops.json"


class Row(NamedTuple):
    """`status` is captured, refused or not computed; `reason` says why it is not captured."""

    method: str
    example: str
    status: str
    kernels: int
    reason: str


def assigned(x: Tensor, y: Tensor) -> Tensor:
    target = x.clone()
    target.assign(target + y)
    return target * 2


def backward(x: Tensor, y: Tensor) -> Tensor:
    (x * y).sum().backward()
    assert x.grad is not None
    return x.grad


def seeded(draw: Callable[[], Tensor]) -> Tensor:
    Tensor.manual_seed(5)
    return draw()


def trained(step: Callable[[], Tensor]) -> Tensor:
    with Context(TRAINING=1):
        return step()


def svd_product(q: Tensor) -> Tensor:
    """The factors are unique only up to signs: their product is the matrix."""
    u, s, v = q.svd()
    return u @ s.diag() @ v


def custom(x: Tensor) -> Tensor:
    def kernel(target: UOp, source: UOp) -> UOp:
        i = UOp.range(target.shape[0], 0)
        return target[i].store(source[i]).end(i).sink(arg=KernelInfo(name="copy"))

    return Tensor.empty(*x.flatten().shape).custom_kernel(x.flatten(), fxn=kernel)[0]


_HELPERS = {f.__name__: f for f in (assigned, backward, seeded, trained, svd_product, custom)}


def function_of(example: Example) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The example as a function, and its inputs."""
    code = compile(example.expression, "<example>", "eval")
    names = [name for name in INPUTS if name in _names(code)]
    scope = {"Tensor": Tensor, "dtypes": dtypes, "Ops": Ops, **_HELPERS}
    return lambda **tensors: eval(code, scope | tensors), {name: INPUTS[name] for name in names}


def _names(code: Any) -> set[str]:
    inner = (_names(c) for c in code.co_consts if hasattr(c, "co_names"))
    return set(code.co_names).union(*inner)


def captured(example: Example) -> GraphProgram:
    function, inputs = function_of(example)
    return capture(function, inputs, {}, fingerprint=False)


def row(method: str) -> Row:
    """What becomes of the example of a method."""
    example = EXAMPLES[method]
    try:
        return Row(method, example.expression, "captured", len(captured(example).program.calls), "")
    except CaptureError as error:
        return Row(method, example.expression, "refused", 0, error.reason)


def rows(*, slow: bool) -> list[Row]:
    """One row per public name of Tensor, sorted; without the slow examples if asked."""
    unsupported = [Row(name, "", "not computed", 0, why) for why, names in NOT_COMPUTED.items() for name in names]
    unsupported += [Row(name, "", "refused", 0, why) for name, why in NOT_SCHEDULED.items()]
    return sorted([*unsupported, *(row(method) for method, example in EXAMPLES.items() if slow or not example.slow)])


def main() -> None:
    """Write the table anew."""
    TABLE.write_text(json.dumps([r._asdict() for r in rows(slow=True)], indent=1) + "\n")


def quick() -> list[str]:
    """The methods that the table says are captured, but for those that take long."""
    committed = [Row(**entry) for entry in json.loads(TABLE.read_text())]
    return [r.method for r in committed if r.status == "captured" and not EXAMPLES[r.method].slow]


def distance(example: Example) -> float:
    """How far the reference's results are from tinygrad's own: the largest difference, relative to values above one."""
    function, inputs = function_of(example)
    graph = captured(example)
    results = reference.execute(graph.program, {**inputs, **graph.weights, **graph.states}).outputs
    expected = function(**{name: Tensor(value) for name, value in inputs.items()})
    expected = expected if isinstance(expected, tuple | list) else [expected]
    return max(apart(results[name], tensor) for name, tensor in zip(names_of(expected), expected, strict=True))


def names_of(results: Any) -> list[str]:
    return ["output"] if len(results) == 1 else [f"output_{i}" for i in range(len(results))]


def apart(ours: Any, theirs: Tensor) -> float:
    """The largest difference of two results, relative to values above one; equal infinities and NaNs do not differ."""
    if ours.dtype == np.uint16 and dtypes.is_float(theirs.dtype):
        ours = (ours.astype(np.uint32) << 16).view(np.float32)
    a = np.asarray(ours, np.float64)
    concrete = theirs.cast(dtypes.float32) if theirs.dtype in (dtypes.bfloat16, *dtypes.weaks) else theirs
    b = concrete.numpy().astype(np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b) / np.maximum(1, np.abs(b)))
    return float(apart.max(initial=0))


if __name__ == "__main__":
    main()
