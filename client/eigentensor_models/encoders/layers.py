"""The layers that all encoders have in common: each position sees the others, all at once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tinygrad import Tensor, dtypes

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Names:
    """What a family's files call the parts of a layer."""

    query: str
    key: str
    value: str
    out: str
    attention_norm: str
    up: str
    down: str
    hidden_norm: str


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of one shape, each of which attends, then transforms, each time adding to what it was given."""

    at: str  # what the names of all layers begin with, before their numbers
    names: Names
    count: int
    width: int
    heads: int
    hidden: int
    epsilon: float
    activation: str
    norms_first: bool  # norms are of what goes into a part, not of what comes out
    unbiased: frozenset[str] = frozenset()  # parts that add nothing

    def shapes(self) -> Shapes:
        """The shape of each tensor by its name."""
        n, square, vector = self.names, (self.width, self.width), (self.width,)
        matrices = {n.query: square, n.key: square, n.value: square, n.out: square}
        matrices |= {n.up: (self.hidden, self.width), n.down: (self.width, self.hidden)}
        inner: Shapes = {f"{name}.weight": shape for name, shape in matrices.items()}
        inner |= {f"{name}.bias": shape[:1] for name, shape in matrices.items() if name not in self.unbiased}
        for name in (n.attention_norm, n.hidden_norm):
            inner |= {f"{name}.weight": vector, f"{name}.bias": vector}
        return {f"{self.at}{number}.{name}": shape for number in range(self.count) for name, shape in inner.items()}


class Parameters:
    """The weights of a network by the names of its files, in float32 where they are used."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name].cast(dtypes.float32)

    def product(self, x: Tensor, name: str) -> Tensor:
        """x (…, columns) → (…, rows), with what is added to each row, if anything is."""
        out = x @ self[f"{name}.weight"].transpose()
        return out + self[f"{name}.bias"] if f"{name}.bias" in self._tensors else out

    def norm(self, x: Tensor, name: str, epsilon: float) -> Tensor:
        """x with mean 0 and variance 1 along its last axis, then scaled and moved."""
        return x.layernorm(eps=epsilon) * self[f"{name}.weight"] + self[f"{name}.bias"]

    def rows(self, name: str, numbers: Tensor) -> Tensor:
        """Rows of a matrix by their numbers, int32 (…) → float32 (…, columns)."""
        return self._tensors[f"{name}.weight"][numbers].cast(dtypes.float32)


def encoded(x: Tensor, seen: Tensor | None, layers: Layers, parameters: Parameters) -> Tensor:
    """(rows, length, width) after all layers; `seen` (rows, 1, length, length), or all see all."""
    n, epsilon = layers.names, layers.epsilon
    for number in range(layers.count):
        at = f"{layers.at}{number}."
        if layers.norms_first:
            x = x + _attended(parameters.norm(x, f"{at}{n.attention_norm}", epsilon), seen, at, layers, parameters)
            x = x + _fed(parameters.norm(x, f"{at}{n.hidden_norm}", epsilon), at, layers, parameters)
        else:
            added = x + _attended(x, seen, at, layers, parameters)
            x = parameters.norm(added, f"{at}{n.attention_norm}", epsilon)
            x = parameters.norm(x + _fed(x, at, layers, parameters), f"{at}{n.hidden_norm}", epsilon)
    return x


def among(mask: Tensor) -> Tensor:
    """Of tokens where `mask` (rows, length) is not zero, who sees whom, (rows, 1, length, length): all these. Each sees
    itself, so that those that are none have a result, too."""
    itself = Tensor.eye(mask.shape[1]) > 0
    return (mask.reshape(mask.shape[0], 1, 1, -1) > 0) | itself.reshape(1, 1, *itself.shape)


def _attended(x: Tensor, seen: Tensor | None, at: str, layers: Layers, parameters: Parameters) -> Tensor:
    rows, length, width = x.shape
    names = (layers.names.query, layers.names.key, layers.names.value)
    query, key, value = (
        parameters.product(x, f"{at}{name}").reshape(rows, length, layers.heads, -1).transpose(1, 2) for name in names
    )
    scores = query @ key.transpose(2, 3) * (width // layers.heads) ** -0.5
    shares = (scores if seen is None else seen.where(scores, -math.inf)).softmax()
    mixed = (shares @ value).transpose(1, 2).reshape(rows, length, width)
    return parameters.product(mixed, f"{at}{layers.names.out}")


def _fed(x: Tensor, at: str, layers: Layers, parameters: Parameters) -> Tensor:
    hidden = active(parameters.product(x, f"{at}{layers.names.up}"), layers.activation)
    return parameters.product(hidden, f"{at}{layers.names.down}")


def active(x: Tensor, activation: str) -> Tensor:
    """x after one of ACTIVATIONS."""
    match activation:
        case "gelu":
            return x.gelu("none")
        case "quick_gelu":
            return x.quick_gelu()
        case "relu":
            return x.relu()
    return x.gelu()


ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu")
