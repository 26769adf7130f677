"""What a newcomer brings: a model that somebody exported, and a program in tinygrad with a function to pay for."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from eigentensor.store import load_safetensors

ROWS, WIDTH, HIDDEN, CLASSES = 4, 16, 32, 3
FUNCTION = """\
import numpy as np
from tinygrad import Tensor

import eigentensor as et

weight = Tensor(np.linspace(-1, 1, 48, dtype=np.float32).reshape(16, 3))


@et.function(max_price="0.05", wait="checked")
def forward(x: Tensor) -> Tensor:
    return (x @ weight).softmax()


if __name__ == "__main__":
    x = Tensor(np.linspace(0, 1, 64, dtype=np.float32).reshape(4, 16))
    print(forward.plan(x))
    y = forward.remote(x)
    print(y.numpy(), y.result.executor, y.result.price)
    print("equal" if y.numpy().tobytes() == forward.local(x).numpy().tobytes() else "different")
"""
MANY = """\
import numpy as np
from tinygrad import Tensor

from net import forward

if __name__ == "__main__":
    xs = [Tensor(x) for x in np.random.default_rng(1).standard_normal((50, 4, 16), dtype=np.float32)]
    ys = list(forward.map(xs))
    same = [y.numpy().tobytes() == forward.local(x).numpy().tobytes() for x, y in zip(xs, ys)]
    print(len(ys), "results,", sum(same), "equal to what this machine computes")
"""


def bring(folder: Path, seed: int) -> None:
    """Writes mlp.onnx, a perceptron of drawn weights, x.npy, its input, and wrong.npy, which does not fit."""
    random = np.random.default_rng(seed)

    def drawn(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32) / 4, name)

    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=1),
    ]
    weights = [drawn("w1", WIDTH, HIDDEN), drawn("b1", HIDDEN), drawn("w2", HIDDEN, CLASSES), drawn("b2", CLASSES)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (ROWS, WIDTH))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (ROWS, CLASSES))
    graph = helper.make_graph(nodes, "perceptron", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), folder / "mlp.onnx")
    np.save(folder / "x.npy", random.standard_normal((ROWS, WIDTH), dtype=np.float32))
    np.save(folder / "wrong.npy", np.zeros((ROWS, WIDTH - 1), np.float32))


def is_right(folder: Path, outputs: str) -> bool:
    """Whether a file holds what ONNX's own evaluation says of mlp.onnx and x.npy, up to rounding."""
    (expected,) = ReferenceEvaluator(str(folder / "mlp.onnx")).run(None, {"x": np.load(folder / "x.npy")})
    there = load_safetensors(folder / outputs)
    return there.keys() == {"y"} and bool(np.allclose(there["y"], expected, rtol=1e-4, atol=1e-6))
