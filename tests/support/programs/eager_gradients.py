"""What gradients are held to PyTorch's for: expressions that both write alike, or each in its own way."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


def _waves(shape: tuple[int, ...], start: float) -> Values:
    """Numbers between −2 and 2, all different."""
    count = int(np.prod(shape))
    return (2 * np.sin(np.arange(count, dtype=np.float64) * 1.7 + start)).astype(np.float32).reshape(shape)


INPUTS: dict[str, Values] = {
    "a": _waves((3, 4), 0.1),
    "b": _waves((3, 4), 2.0),
    "v": _waves((4,), 0.7),
    "c": _waves((3, 1), 1.1),
    "s": _waves((), 0.4),
    "m": _waves((4, 5), 0.9),
    "t": _waves((2, 3, 4), 1.5),
    "p": np.abs(_waves((3, 4), 0.3)) + np.float32(0.5),
    "q": (np.abs(_waves((3, 4), 0.8)) / 2 * np.float32(0.9) + np.float32(0.05)).astype(np.float32),
    "e": np.array([[1, 2, 2, 0], [3, 3, 3, 3], [-1, -2, -1, -5]], np.float32),
    "one": _waves((3, 1), 0.2),
}
#: Numbers that have no gradient.
GIVEN: dict[str, Values] = {
    "classes": np.array([3, 0, 1], np.int64),
    "places": np.array([[2, 0, 2], [-1, 1, -3]], np.int64),
    "ones": np.array([1, 0, 1, 1], np.int64),
    "shares": np.array([[0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0], [0, 0.5, 0.5, 0]], np.float32),
    "yes": np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 1]], np.float32),
    "no": np.array([[1], [0], [1]], np.float32),
}


@dataclass(frozen=True)
class Case:
    """An expression of inputs; `theirs` is what PyTorch calls it, where that differs."""

    takes: str
    ours: str
    theirs: str = ""


CASES: dict[str, Case] = {
    "add": Case("ab", "a + b"),
    "add of rows": Case("av", "a + v"),
    "add of columns": Case("ac", "a + c"),
    "add of a scalar": Case("as", "a + s"),
    "numbers on either side": Case("a", "1 - (2 + a) * 3 - a / 4 + 5 * a"),
    "sub": Case("av", "a - v"),
    "mul": Case("ac", "a * c"),
    "mul of itself": Case("a", "a * a"),
    "mul of more axes": Case("tv", "t * v"),
    "div": Case("ap", "a / p"),
    "div of a number": Case("p", "2 / p"),
    "div of rows": Case("vp", "v / p"),
    "square": Case("a", "a ** 2"),
    "cube": Case("a", "a ** 3"),
    "root as power": Case("p", "p ** 0.5"),
    "negative power": Case("p", "p ** -2"),
    "power zero": Case("a", "a ** 0"),
    "power that varies": Case("pb", "p ** b"),
    "power of a number": Case("a", "2.5 ** a"),
    "neg": Case("a", "-a"),
    "abs": Case("a", "abs(a)"),
    "exp": Case("a", "a.exp()"),
    "log": Case("p", "p.log()"),
    "sqrt": Case("p", "p.sqrt()"),
    "sin": Case("a", "a.sin()"),
    "cos": Case("a", "a.cos()"),
    "relu": Case("a", "a.relu()"),
    "sigmoid": Case("a", "a.sigmoid()"),
    "tanh": Case("a", "a.tanh()"),
    "gelu": Case("a", "a.gelu()", "F.gelu(a)"),
    "silu": Case("a", "a.silu()", "F.silu(a)"),
    "softplus": Case("a", "a.softplus()", "F.softplus(a)"),
    "reciprocal": Case("p", "p.reciprocal()"),
    "clip": Case("a", "a.clip(-0.5, 1.2)", "a.clamp(-0.5, 1.2)"),
    "softmax": Case("a", "a.softmax()", "a.softmax(-1)"),
    "log_softmax along rows": Case("a", "a.log_softmax(0)"),
    "maximum": Case("ab", "new.maximum(a, b)", "torch.maximum(a, b)"),
    "minimum of rows": Case("av", "new.minimum(a, v)", "torch.minimum(a, v.expand(3, 4))"),
    "maximum of equal ones": Case("e", "new.maximum(e, e * 1)", "torch.maximum(e, e * 1)"),
    "sum": Case("a", "a.sum()"),
    "sum of an axis": Case("t", "t.sum(1)"),
    "sum that keeps": Case("t", "t.sum((0, 2), True)"),
    "mean": Case("a", "a.mean()"),
    "mean of an axis": Case("t", "t.mean(-1)"),
    "max": Case("a", "a.max()"),
    "max of an axis": Case("a", "a.max(1)", "a.amax(1)"),
    "max of equal ones": Case("e", "e.max(1, True)", "e.amax(1, True)"),
    "min of equal ones": Case("e", "e.min(0)", "e.amin(0)"),
    "min of all": Case("e", "e.min()", "e.amin()"),
    "matmul": Case("am", "a @ m"),
    "matmul of a vector": Case("av", "a @ v"),
    "matmul by a vector": Case("vm", "v @ m"),
    "matmul of vectors": Case("v", "v @ (v * 2)"),
    "matmul of many": Case("tm", "t @ m"),
    "matmul of many with many": Case("t", "t @ t.transpose(1, 2)"),
    "matmul that broadcasts": Case("tm", "t @ (m.unsqueeze(0) * 2)"),
    "transposed": Case("am", "m.T @ a.T"),
    "permute": Case("t", "t.permute(2, 0, 1) * 3"),
    "reshape": Case("t", "t.reshape(6, -1) ** 2"),
    "squeeze": Case("c", "c.squeeze(1).unsqueeze(0) ** 2"),
    "expand": Case("c", "c.expand(3, 5) ** 2"),
    "flip": Case("t", "t.flip(0, 2) * t"),
    "from right to left": Case("a", "a[:, ::-1] * a", "a.flip(1) * a"),
    "a row": Case("a", "a[1] ** 2"),
    "an element": Case("a", "a[2, 3] * 2"),
    "from the end": Case("t", "t[-1, :, -2] ** 2"),
    "a box": Case("a", "a[0:2, 1:3] ** 2"),
    "every other": Case("a", "a[:, 1::2] ** 2"),
    "every third from the end": Case("t", "t[..., 3::-3] ** 2", "t.flip(-1)[..., ::3] ** 2"),
    "a new axis": Case("a", "a[:, None, 2:] * 2"),
    "rows by number": Case("a", "a[places] ** 2"),
    "rows of many axes by number": Case("t", "t[ones] ** 2"),
    "twice the same": Case("a", "a[0] * a[0:2]"),
    "split": Case("a", "a.split(3, 1)[0] * 2"),
    "chunk": Case("t", "t.chunk(2, 2)[1] ** 2"),
    "cat": Case("ab", "new.cat([a, b * 2, a]) ** 2", "torch.cat([a, b * 2, a]) ** 2"),
    "cat of columns": Case("ac", "new.cat([a, c], 1) ** 2", "torch.cat([a, c], 1) ** 2"),
    "stack": Case("ab", "new.stack([a, b], 1) ** 2", "torch.stack([a, b], 1) ** 2"),
    "where": Case("ab", "new.where(a > b, a * 2, b * 3)", "torch.where(a > b, a * 2, b * 3)"),
    "where of a number": Case("a", "new.where(a < 0.5, a, 0.25)", "torch.where(a < 0.5, a, 0.25)"),
    "where of a number first": Case("a", "new.where(a < 0.5, 0.25, a)", "torch.where(a < 0.5, 0.25, a)"),
    "where of rows": Case("av", "new.where(a > v, v, a)", "torch.where(a > v, v, a)"),
    "halves": Case("a", "(a.astype('float16') * 2).astype('float32')", "(a.half() * 2).float()"),
    "pad": Case("a", "a.pad(((0, 0), (1, 2))) ** 2", "F.pad(a, (1, 2)) ** 2"),
    "floor, which has none": Case("a", "a // 1 + a", "a.detach() // 1 + a"),
    "comparison, which has none": Case("a", "a - (a > 0).astype('float32')", "a - (a > 0).float()"),
    "mse": Case("ab", "nn.mse_loss(a, b)", "F.mse_loss(a, b)"),
    "cross entropy of classes": Case("a", "nn.cross_entropy_loss(a, classes)", "F.cross_entropy(a, classes)"),
    "cross entropy of shares": Case("a", "nn.cross_entropy_loss(a, shares)", "F.cross_entropy(a, shares)"),
    "cross entropy of one class": Case(
        "one", "nn.cross_entropy_loss(one, no)", "F.binary_cross_entropy_with_logits(one, no)"
    ),
    "binary cross entropy": Case("q", "nn.binary_cross_entropy(q, yes)", "F.binary_cross_entropy(q, yes)"),
    "a layer": Case("amv", "((a @ m).relu().sum(1, True) * v).tanh()"),
}


def taken(case: Case) -> list[str]:
    """The names of a case's inputs: one letter each, or one word."""
    return [case.takes] if case.takes in INPUTS else list(case.takes)


def weights(shape: tuple[int, ...]) -> Values:
    """By which the elements of a result are added up."""
    return _waves(shape, 0.5)
