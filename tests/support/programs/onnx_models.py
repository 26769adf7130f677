"""Small ONNX models, written with onnx's own helpers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, np.ndarray[Any, Any]]
Made = Callable[[], tuple[onnx.ModelProto, Arrays]]
_random = np.random.default_rng(20261121)


def normal(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return _random.standard_normal(shape).astype(np.float32)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str | None]]],
    outputs: Mapping[str, int],
    weights: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> onnx.ModelProto:
    """A model; inputs have a type and a shape, outputs a type."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


node = helper.make_node
FLOAT, INT32, INT64, INT8, HALF, BOOL = (
    TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.INT8, TensorProto.FLOAT16, TensorProto.BOOL,
)  # fmt: skip


def mlp() -> tuple[onnx.ModelProto, Arrays]:
    nodes = [
        node("Gemm", ["x", "net/0/weight", "net/0/bias"], ["h"], transB=1),
        node("Relu", ["h"], ["r"]),
        node("MatMul", ["r", "net/1/weight"], ["m"]),
        node("Add", ["m", "net/1/bias"], ["logits"]),
        node("Softmax", ["logits"], ["p"], axis=-1),
    ]
    weights = {"net/0/weight": normal(32, 16), "net/0/bias": normal(32), "net/1/weight": normal(32, 5)}
    weights["net/1/bias"] = normal(5)
    return model(nodes, {"x": (FLOAT, ("batch", 16))}, {"p": FLOAT, "logits": FLOAT}, weights), {"x": normal(3, 16)}


def convolutions() -> tuple[onnx.ModelProto, Arrays]:
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=2),
        node("Add", ["c2", "p1"], ["s"]),
        node("GlobalAveragePool", ["s"], ["g"]),
        node("Flatten", ["g"], ["y"]),
    ]
    weights = {"w1": normal(4, 3, 3, 3), "b1": normal(4), "w2": normal(4, 2, 3, 3), "scale": normal(4)}
    weights |= {"shift": normal(4), "mean": normal(4), "var": np.abs(normal(4))}
    return model(nodes, {"x": (FLOAT, (2, 3, 12, 12))}, {"y": FLOAT}, weights), {"x": normal(2, 3, 12, 12)}


def transformer() -> tuple[onnx.ModelProto, Arrays]:
    """An embedding, a block with attention of two heads, and a Gelu; the shapes are computed in the model."""
    width, heads = 8, 2
    nodes = [
        node("Gather", ["table", "tokens"], ["e"]),
        node("Gather", ["places", "first"], ["at"]),
        node("Add", ["e", "at"], ["x"]),
        node("LayerNormalization", ["x", "ln.weight", "ln.bias"], ["n"], axis=-1, epsilon=1e-5),
        node("Shape", ["n"], ["shape"], end=2),
        node("Concat", ["shape", "split"], ["split_shape"], axis=0),
    ]
    for part in "qkv":
        nodes += [
            node("MatMul", ["n", f"{part}.weight"], [f"{part}m"]),
            node("Reshape", [f"{part}m", "split_shape"], [f"{part}r"]),
            node("Transpose", [f"{part}r"], [part], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["together"], perm=[0, 2, 1, 3]),
        node("Reshape", ["together", "joined"], ["a"]),
        node("Add", ["x", "a"], ["y"]),
        node("MatMul", ["y", "up"], ["u"]),
        node("Gelu", ["u"], ["g"]),
        node("Gelu", ["u"], ["t"], approximate="tanh"),
        node("Erf", ["t"], ["f"]),
        node("Add", ["g", "f"], ["z"]),
    ]
    weights: Arrays = {"table": normal(20, width), "places": normal(6, width), "first": np.arange(5, dtype=np.int64)}
    weights |= {f"{part}.weight": normal(width, width) for part in "qkv"}
    weights |= {"ln.weight": normal(width), "ln.bias": normal(width), "up": normal(width, 16)}
    weights |= {"split": np.array([heads, width // heads]), "joined": np.array([0, -1, width])}
    weights["scale"] = np.array(0.5, np.float32)
    tokens = _random.integers(0, 20, (2, 5))
    return model(nodes, {"tokens": (INT64, ("batch", "length"))}, {"z": FLOAT}, weights), {"tokens": tokens}


def integers() -> tuple[onnx.ModelProto, Arrays]:
    nodes = [
        node("Add", ["a", "b"], ["sum"]),
        node("Div", ["a", "b"], ["quotient"]),
        node("Cast", ["small"], ["wide"], to=INT32),
        node("MatMulInteger", ["small", "kernel"], ["product"]),
        node("Greater", ["a", "b"], ["greater"]),
        node("Where", ["greater", "a", "b"], ["larger"]),
        node("ReduceSum", ["a", "axes"], ["total"], keepdims=0),
        node("ArgMax", ["a"], ["place"], axis=1, keepdims=0),
        node("Cast", ["a"], ["half"], to=HALF),
    ]
    outputs = {"sum": INT32, "quotient": INT32, "wide": INT32, "product": INT32, "greater": BOOL, "larger": INT32}
    outputs |= {"total": INT32, "place": INT64, "half": HALF}
    weights = {"kernel": _random.integers(-128, 128, (6, 3)).astype(np.int8), "axes": np.array([1])}
    inputs: Arrays = {name: _random.integers(-50, 50, (4, 6)).astype(np.int32) for name in "ab"}
    inputs["b"][inputs["b"] == 0] = 7
    inputs["small"] = _random.integers(-128, 128, (2, 6)).astype(np.int8)
    types = {"a": (INT32, (4, 6)), "b": (INT32, (4, 6)), "small": (INT8, (2, 6))}
    return model(nodes, types, outputs, weights), inputs


def _seeded(make: Made) -> Made:
    """The same model whichever tests drew numbers before."""

    def made() -> tuple[onnx.ModelProto, Arrays]:
        global _random
        _random = np.random.default_rng(20261121)
        return make()

    return made


MODELS = {
    "mlp": _seeded(mlp),
    "convolutions": _seeded(convolutions),
    "transformer": _seeded(transformer),
    "integers": _seeded(integers),
}


def minilm(layers: int = 6, width: int = 384, heads: int = 12, vocabulary: int = 30522) -> onnx.ModelProto:
    """An encoder of MiniLM's sizes as exporters write it: normalisations in single operations, gelu by erf, shapes that
    are computed from the input's."""
    weights: Arrays = {"words": normal(vocabulary, width), "places": normal(512, width)}
    scalars = {"two": 2, "eps": 1e-12, "one": 1, "half": 0.5, "root": 2**0.5, "scale": (width / heads) ** 0.5}
    weights |= {name: np.array(value, np.float32) for name, value in scalars.items()}
    weights |= {"first": np.array(0), "second": np.array(1), "axis": np.array([0]), "start": np.array(0)}
    weights |= {"parts": np.array([heads, width // heads]), "whole": np.array([width])}
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, *of: str, **attributes: Any) -> str:
        name = f"{kind}_{len(nodes)}"
        nodes.append(node(kind, list(of), [name], **attributes))
        return name

    def linear(x: str, name: str, inner: int, outer: int) -> str:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = normal(inner, outer), normal(outer)
        return add("Add", add("MatMul", x, f"{name}.weight"), f"{name}.bias")

    def norm(x: str, name: str) -> str:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = normal(width), normal(width)
        apart = add("Sub", x, add("ReduceMean", x, "last"))
        spread = add("Sqrt", add("Add", add("ReduceMean", add("Pow", apart, "two"), "last"), "eps"))
        return add("Add", add("Mul", add("Div", apart, spread), f"{name}.weight"), f"{name}.bias")

    weights["last"] = np.array([-1])
    shape = add("Shape", "tokens")
    batch, length = (add("Unsqueeze", add("Gather", shape, which), "axis") for which in ("first", "second"))
    apart, joined = (add("Concat", batch, length, end, axis=0) for end in ("parts", "whole"))
    places = add("Gather", "places", add("Range", "start", add("Gather", shape, "second"), "second"))
    x = norm(add("Add", add("Gather", "words", "tokens"), places), "norm")
    for n in range(layers):
        q, k, v = (
            add("Transpose", add("Reshape", linear(x, f"{n}.{part}", width, width), apart), perm=order)
            for part, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3)))
        )
        shares = add("Softmax", add("Div", add("MatMul", q, k), "scale"), axis=-1)
        mixed = add("Reshape", add("Transpose", add("MatMul", shares, v), perm=(0, 2, 1, 3)), joined)
        x = norm(add("Add", x, linear(mixed, f"{n}.out", width, width)), f"{n}.first")
        up = linear(x, f"{n}.up", width, 4 * width)
        erf = add("Add", add("Erf", add("Div", up, "root")), "one")
        gelu = add("Mul", add("Mul", up, erf), "half")
        x = norm(add("Add", x, linear(gelu, f"{n}.down", 4 * width, width)), f"{n}.second")
    nodes.append(node("Identity", [x], ["hidden"]))
    return model(nodes, {"tokens": (INT64, ("batch", "length"))}, {"hidden": FLOAT}, weights)


def resnet50(size: int = 64, classes: int = 1000) -> onnx.ModelProto:
    """ResNet-50 as exporters write it: normalisations are in the convolutions' weights and biases."""
    weights: Arrays = {}
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, *of: str, **attributes: Any) -> str:
        name = f"{kind}_{len(nodes)}"
        nodes.append(node(kind, list(of), [name], **attributes))
        return name

    def convolved(x: str, inner: int, outer: int, kernel: int, stride: int = 1) -> str:
        name = f"{len(weights)}.weight"
        weights[name] = normal(outer, inner, kernel, kernel) * np.float32((2 / (inner * kernel * kernel)) ** 0.5)
        weights[f"{name}.bias"] = normal(outer)
        pads = [kernel // 2] * 4
        return add("Conv", x, name, f"{name}.bias", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)

    x = add("Relu", convolved("image", 3, size, 7, 2))
    x, inner = add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), size
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = size << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            beside = convolved(x, inner, 4 * width, 1, stride) if not block else x
            within = add("Relu", convolved(x, inner, width, 1))
            within = add("Relu", convolved(within, width, width, 3, stride))
            x, inner = add("Relu", add("Add", convolved(within, width, 4 * width, 1), beside)), 4 * width
    weights["classes.weight"], weights["classes.bias"] = normal(inner, classes), normal(classes)
    pooled = add("Flatten", add("GlobalAveragePool", x))
    nodes.append(node("Gemm", [pooled, "classes.weight", "classes.bias"], ["logits"]))
    return model(nodes, {"image": (FLOAT, (1, 3, 224, 224))}, {"logits": FLOAT}, weights)
