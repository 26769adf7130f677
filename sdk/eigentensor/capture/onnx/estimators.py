"""Operators of ONNX ML: what scikit-learn's estimators become when they are exported as they are.

What is a sequence of maps there, a class to its probability for each row, is a tensor here, a column for each class.
Labels are numbers: texts are no tensors.
"""

from collections.abc import Sequence

from tinygrad import Tensor, dtypes

from eigentensor.capture.onnx.arithmetic import quotient
from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import operator, refuse

LEAST = 1e-30  #: a row is divided by no less than this


@operator("ai.onnx.ml.Scaler")
def scaler(x: Tensor, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)) -> Tensor:
    """ONNX ML Scaler: (x − offset)·scale, each one number or one for each column."""
    return (x.cast(dtypes.float32) - floats(offset)) * floats(scale)


@operator("ai.onnx.ml.Normalizer")
def normalizer(x: Tensor, norm: str = "MAX", *, node: Node) -> Tensor:
    """ONNX ML Normalizer: rows over their 1- or 2-norm; a row of zeros stays."""
    wide = x.cast(dtypes.float32)
    match norm:
        case "L1":
            size = wide.abs().sum(-1, keepdim=True)
        case "L2":
            size = wide.square().sum(-1, keepdim=True).sqrt()
        case _:
            raise refuse(node, f"the norm {norm!r}, which others compute in two ways")
    return quotient(wide, size.maximum(LEAST))


@operator("ai.onnx.ml.LinearRegressor")
def linear_regressor(
    x: Tensor,
    coefficients: Sequence[float] = (),
    intercepts: Sequence[float] = (0.0,),
    targets: int = 1,
    post_transform: str = "NONE",
    *,
    node: Node,
) -> Tensor:
    """ONNX ML LinearRegressor: a column for each target."""
    return transformed(_linear(x, coefficients, intercepts, targets, node), post_transform, node)


@operator("ai.onnx.ml.LinearClassifier")
def linear_classifier(
    x: Tensor,
    coefficients: Sequence[float] = (),
    intercepts: Sequence[float] = (0.0,),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
    *,
    node: Node,
) -> tuple[Tensor, Tensor]:
    """ONNX ML LinearClassifier: the label of the largest score, and the scores, a column for each class."""
    labels = numbered(classlabels_ints, classlabels_strings, node)
    scores = _linear(x, coefficients, intercepts, len(labels), node)
    return labelled(scores, labels), transformed(scores, post_transform, node)


@operator("ai.onnx.ml.ZipMap")
def zip_map(
    x: Tensor, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = (), *, node: Node
) -> Tensor:
    """ONNX ML ZipMap: the scores as they are, a column for each class, in the order of the classes."""
    classes = len(classlabels_int64s) or len(classlabels_strings)
    if x.ndim != 2 or x.shape[1] != classes:
        raise refuse(node, f"{classes} classes for scores of the shape {x.shape}", "check it with onnx.checker")
    return x


def _linear(x: Tensor, coefficients: Sequence[float], intercepts: Sequence[float], results: int, node: Node) -> Tensor:
    """x·Cᵀ + b: a column for each of the results."""
    columns = x.shape[-1]
    if x.ndim != 2 or len(coefficients) != results * columns or len(intercepts) not in (1, results):
        what = f"{len(coefficients)} coefficients for {columns} columns and {results} results"
        raise refuse(node, what, "check it with onnx.checker")
    return x.cast(dtypes.float32) @ floats(coefficients).reshape(results, columns).T + floats(intercepts)


def transformed(scores: Tensor, transform: str, node: Node) -> Tensor:
    """The scores after a `post_transform`."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return scores.sigmoid()
        case "SOFTMAX":
            return scores.softmax(-1)
    raise refuse(node, f"post_transform {transform!r}")


def numbered(numbers: Sequence[int], texts: Sequence[str], node: Node) -> Sequence[int]:
    """The labels of the classes. Raises CaptureError where they are texts."""
    if texts or not numbers:
        raise refuse(node, "its labels are no numbers", "train the model on numbers, one for each class")
    return numbers


def labelled(scores: Tensor, labels: Sequence[int]) -> Tensor:
    """The label of the largest score of each row, the first of equals."""
    return Tensor(list(labels), dtype=dtypes.int64)[scores.argmax(-1)]


def floats(values: Sequence[float]) -> Tensor:
    """Numbers of an attribute as float32."""
    return Tensor(list(values), dtype=dtypes.float32)
