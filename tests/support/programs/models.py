"""Models of real shapes with random weights, as tinygrad code: for tests of their bits and for measuring."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Context, Tensor, UOp, nn

from eigentensor.capture import GraphProgram, capture, capture_graph
from eigentensor.graph import Graph
from eigentensor_client.writing import Sampling
from language.decoder import GEMMA_3_270M, SMALL, Shape, Writer, drawn
from support.generated.programs import Example

Values = NDArray[Any]


@dataclass(frozen=True)
class Model:
    """A function of named inputs, and the object whose tensors are its weights and states.

    `variables` are the limits of the function's variables, as `capture` takes them.
    """

    name: str
    model: Any
    function: Callable[..., Any]
    inputs: Mapping[str, Values]
    variables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def captured(self) -> GraphProgram:
        return capture(self.function, self.inputs, self.model, variables=self.variables)

    def as_graph(self) -> Graph:
        return capture_graph(self.function, self.inputs, self.model, variables=self.variables)


def filled(model: Any, seed: int) -> Any:
    """The model with weights drawn by NumPy, sized so that activations keep their size from layer to layer."""
    random = np.random.default_rng(seed)
    for name, tensor in nn.state.get_state_dict(model).items():
        shape = tuple(int(extent) for extent in tensor.shape)
        values = random.standard_normal(shape, dtype=np.float32)
        if name.endswith("num_batches_tracked"):
            continue
        if name.endswith("running_var"):
            values = 1 + values**2
        elif len(shape) > 1:
            values *= np.float32((2 / np.prod(shape[1:])) ** 0.5)
        else:
            values = values * np.float32(0.1) + np.float32("norm" in name and name.endswith("weight"))
        tensor.replace(Tensor(values).realize())
    return model


def _floats(*shape: int) -> Values:
    return np.random.default_rng(5).standard_normal(shape, dtype=np.float32)


def _tokens(length: int, vocabulary: int) -> Values:
    return np.random.default_rng(6).integers(0, vocabulary, (1, length), dtype=np.int32)


class Digits:
    """The network of the demo: 8 × 8 images, ten classes."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Linear(32 * 2 * 2, 10)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.first(images).relu().max_pool2d()
        return self.last(self.second(x).relu().max_pool2d().flatten(1))


class Perceptron:
    """Two products, whatever lies between."""

    def __init__(self, size: int) -> None:
        self.first, self.last = nn.Linear(size, size), nn.Linear(size, size)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu())


class Residual:
    """Two convolutions with a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        self.first = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm(outer), nn.BatchNorm(outer)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride=stride, bias=False) if stride > 1 else None
        self.shortcut_norm = nn.BatchNorm(outer) if stride > 1 else None

    def __call__(self, x: Tensor) -> Tensor:
        y = self.second_norm(self.second(self.first_norm(self.first(x)).relu()))
        if self.shortcut is not None and self.shortcut_norm is not None:
            x = self.shortcut_norm(self.shortcut(x))
        return (x + y).relu()


class ResNet18:
    """Images of three channels to a thousand classes."""

    def __init__(self, width: int) -> None:
        self.first, self.first_norm = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm(width)
        sizes = [(width, width, 1), *((width << n, width << n + 1, 2) for n in range(3))]
        self.blocks = [b for i, o, s in sizes for b in (Residual(i, o, s), Residual(o, o, 1))]
        self.last = nn.Linear(8 * width, 1000)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.first_norm(self.first(images)).relu().max_pool2d((3, 3), stride=2, padding=1)
        return self.last(x.sequential(self.blocks).mean((2, 3)))


class Layer:
    """A transformer's layer: attention over all positions, or those before, then two products with gelu between."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def __call__(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (f(x).reshape(*split).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = q.scaled_dot_product_attention(k, v, is_causal=self.causal).transpose(1, 2)
        x = self.first_norm(x + self.out(mixed.reshape(batch, length, width)))
        return self.second_norm(x + self.down(self.up(x).gelu()))


class Bert:
    """An encoder: tokens to the mean of their last hidden states."""

    def __init__(self, layers: int, width: int, heads: int, length: int, vocabulary: int = 30522) -> None:
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = [Layer(width, heads) for _ in range(layers)]

    def __call__(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.words(tokens) + self.places.weight)
        return x.sequential(self.layers).mean(1)


class Causal(Bert):
    """A decoder that sees all its tokens at once: to the scores of the token after each of them."""

    def __init__(self, layers: int, width: int, heads: int, length: int, vocabulary: int) -> None:
        super().__init__(layers, width, heads, length, vocabulary)
        self.layers = [Layer(width, heads, causal=True) for _ in range(layers)]

    def __call__(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.words(tokens) + self.places.weight)
        return x.sequential(self.layers) @ self.words.weight.transpose()


class Decoder:
    """A layer of a decoder that sees one position at a time and keeps keys and values of those before."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        self.heads = heads
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.keys = Tensor.zeros(1, context, width).contiguous().realize()
        self.values = Tensor.zeros(1, context, width).contiguous().realize()

    def __call__(self, x: Tensor, position: UOp) -> Tensor:
        width = int(x.shape[-1])
        size = width // self.heads
        query, key, value = self.attend(self.first_norm(x)).chunk(3, dim=-1)
        self.keys[:, position : position + 1].assign(key)
        self.values[:, position : position + 1].assign(value)
        split = (1, position + 1, self.heads, size)
        q = query.reshape(1, 1, self.heads, size).transpose(1, 2)
        k, v = (t[:, : position + 1].reshape(*split).transpose(1, 2) for t in (self.keys, self.values))
        mixed = (q @ k.transpose(2, 3) / size**0.5).softmax() @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, width))
        return x + self.down(self.up(self.second_norm(x)).gelu())


class Gpt2:
    """One step of a decoder: a token at a position to the scores of the next."""

    def __init__(self, layers: int, width: int, heads: int, context: int, vocabulary: int) -> None:
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = [Decoder(width, heads, context) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)

    def __call__(self, token: Tensor, position: UOp) -> Tensor:
        x = self.words(token) + self.places.weight[position : position + 1].reshape(1, 1, -1)
        for layer in self.layers:
            x = layer(x, position)
        return self.norm(x) @ self.words.weight.transpose()


class Vit:
    """Patches of an image as tokens of an encoder: to a thousand classes."""

    def __init__(self, layers: int, width: int, heads: int, size: int, patch: int) -> None:
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Embedding((size // patch) ** 2, width)
        self.layers = [Layer(width, heads) for _ in range(layers)]
        self.last = nn.Linear(width, 1000)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places.weight
        return self.last(x.sequential(self.layers).mean(1))


class Listener:
    """Whisper's encoder: two convolutions along time, then layers over all of it."""

    def __init__(self, layers: int, width: int, heads: int, length: int) -> None:
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.places = nn.Embedding(length // 2, width)
        self.layers = [Layer(width, heads) for _ in range(layers)]

    def __call__(self, sound: Tensor) -> Tensor:
        x = self.second(self.first(sound).gelu()).gelu().transpose(1, 2)
        return (x + self.places.weight).sequential(self.layers)


class Normed:
    """Two convolutions, each behind a normalisation over groups of channels, with a shortcut."""

    def __init__(self, inner: int, outer: int) -> None:
        self.first_norm, self.first = nn.GroupNorm(8, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.second_norm, self.second = nn.GroupNorm(8, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Conv2d(inner, outer, 1) if inner != outer else None

    def __call__(self, x: Tensor) -> Tensor:
        y = self.second(self.second_norm(self.first(self.first_norm(x).silu())).silu())
        return y + (x if self.shortcut is None else self.shortcut(x))


class UNet:
    """A step of diffusion: down to half the size, a transformer's layer there, and up again beside what was before."""

    def __init__(self, width: int) -> None:
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.high, self.low = Normed(width, width), Normed(2 * width, 2 * width)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.among = Layer(2 * width, 4)
        self.up, self.joined = nn.Conv2d(2 * width, width, 3, padding=1), Normed(2 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        high = self.high(self.first(x))
        low = self.low(self.down(high))
        batch, width, rows, columns = low.shape
        tokens = self.among(low.flatten(2).transpose(1, 2))
        low = tokens.transpose(1, 2).reshape(batch, width, rows, columns)
        wide = low.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return self.last(self.joined(self.up(wide).cat(high, dim=1)))


class Hidden:
    """Rows to ten classes, through two hidden layers."""

    def __init__(self, width: int) -> None:
        self.first, self.second, self.last = nn.Linear(784, width), nn.Linear(width, width), nn.Linear(width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).relu()).relu())


class Classified:
    """A transformer's layer and ten classes of what it gives in the mean."""

    def __init__(self, width: int, heads: int) -> None:
        self.layers, self.last = [Layer(width, heads)], nn.Linear(width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(x.sequential(self.layers).mean(1))


class BatchNormed:
    """Two convolutions with a normalisation over the batch each, and ten classes."""

    def __init__(self, width: int) -> None:
        self.first, self.first_norm = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm(width)
        self.second, self.second_norm = nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False), nn.BatchNorm(2 * width)
        self.last = nn.Linear(2 * width, 10)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.second_norm(self.second(self.first_norm(self.first(images)).relu())).relu()
        return self.last(x.mean((2, 3)))


class Training:
    """A network and what trains it."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.optimizer = nn.optim.Adam(nn.state.get_parameters(network))

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        with Context(TRAINING=1):
            self.optimizer.zero_grad()
            loss = self.network(images).sparse_categorical_crossentropy(labels).backward()
            return loss.realize(*self.optimizer.schedule_step())


def digits(images: int = 99) -> Model:
    network = filled(Digits(), 1)
    return Model(f"digits net, {images} images", network, network, {"images": _floats(images, 1, 8, 8)})


def perceptron(size: int = 512) -> Model:
    network = filled(Perceptron(size), 4)
    return Model(f"two products, {size}²", network, network, {"x": _floats(size, size)})


def resnet18(size: int = 112, width: int = 64) -> Model:
    network = filled(ResNet18(width), 2)
    return Model(f"ResNet-18, {size}²", network, network, {"images": _floats(1, 3, size, size)})


def bert(layers: int = 6, width: int = 384, heads: int = 12, length: int = 128) -> Model:
    network = filled(Bert(layers, width, heads, length), 3)
    name = f"BERT, {layers} × {width}, {length} tokens"
    return Model(name, network, network, {"tokens": _tokens(length, 30522)})


def causal(layers: int = 6, width: int = 384, heads: int = 12, length: int = 256, vocabulary: int = 4096) -> Model:
    network = filled(Causal(layers, width, heads, length, vocabulary), 6)
    name = f"causal decoder, {layers} × {width}, {length} tokens"
    return Model(name, network, network, {"tokens": _tokens(length, vocabulary)})


def gpt2_step(layers: int = 12, width: int = 768, heads: int = 12, context: int = 64, vocabulary: int = 50257) -> Model:
    """The states are keys and values; the variable `position` moves by one in each iteration of a repeat."""
    network = filled(Gpt2(layers, width, heads, context, vocabulary), 4)
    name = f"GPT-2 step, {layers} × {width}, {context} positions"
    limits = {"position": (0, context - 1, 1)}
    return Model(name, network, network, {"token": _tokens(1, vocabulary)}, limits)


def writer(shape: Shape, name: str) -> Model:
    """The language model of the examples at one position: token in, token out."""
    made, context = Writer(drawn(shape)), shape.context
    inputs = {"prompt": np.full(context + 1, -1, np.int32), **Sampling(0.8, least=0.01, seed=1).inputs()}
    return Model(name, made, made, inputs, {"position": (0, context - 1, 1)})


def small_step(context: int = SMALL.context) -> Model:
    """Of the shape that learns the front page."""
    return writer(replace(SMALL, context=context), f"small decoder's step, {SMALL.layers} × {SMALL.width}")


def gemma_step(layers: int = 18, context: int = 128) -> Model:
    """Of Gemma 3 270M's shape: 1.07 GB of weights."""
    return writer(replace(GEMMA_3_270M, layers=layers, context=context), f"Gemma 3 270M step, {layers} layers")


def vit_b(layers: int = 12, size: int = 224) -> Model:
    network = filled(Vit(layers, 768, 12, size, 16), 10)
    return Model(f"ViT-B's sizes, {size}²", network, network, {"images": _floats(1, 3, size, size)})


def whisper_tiny(length: int = 3000) -> Model:
    network = filled(Listener(4, 384, 6, length), 11)
    return Model(f"encoder of Whisper tiny's sizes, {length}", network, network, {"sound": _floats(1, 80, length)})


def unet(size: int = 32, width: int = 64) -> Model:
    network = filled(UNet(width), 12)
    return Model(f"diffusion's U-Net, {size}²", network, network, {"x": _floats(1, 4, size, size)})


def adam_step(images: int = 32) -> Model:
    return trained(filled(Digits(), 5), f"Adam step, {images} images", _floats(images, 1, 8, 8))


def mlp_step(rows: int = 128, width: int = 512) -> Model:
    return trained(filled(Hidden(width), 13), f"Adam step of an MLP, {rows} rows", _floats(rows, 784))


def layer_step(width: int = 256, length: int = 64) -> Model:
    network = filled(Classified(width, 8), 14)
    return trained(network, f"Adam step of a layer, {width} wide", _floats(4, length, width))


def batchnorm_step(images: int = 16, size: int = 32) -> Model:
    network = filled(BatchNormed(32), 15)
    return trained(network, f"Adam step with BatchNorm, {images} × {size}²", _floats(images, 3, size, size))


def trained(network: Any, name: str, images: Values) -> Model:
    """A step of training with labels by chance: the states are the network's parameters and the optimizer's moments."""
    training = Training(network)
    for tensor in nn.state.get_parameters(training):
        tensor.realize()
    labels = np.random.default_rng(8).integers(0, 10, len(images), dtype=np.int32)
    return Model(name, training, training, {"images": images, "labels": labels})


#: The models whose every call tests compare, by name.
MODELS: dict[str, Callable[[], Model]] = {
    "digits": digits,
    "ResNet-18": resnet18,
    "BERT of MiniLM's sizes": bert,
    "GPT-2-small step": gpt2_step,
    "Gemma-3-270M step": gemma_step,
    "Adam step": adam_step,
    "language model's step": small_step,
}

#: The same shapes as small as they come, for processors that are emulated.
SMALLEST: dict[str, Callable[[], Model]] = {
    "digits": partial(digits, 2),
    "ResNet-18": partial(resnet18, 16, 16),
    "BERT": partial(bert, layers=1, width=32, heads=2, length=8),
    "GPT-2 step": partial(gpt2_step, layers=2, width=32, heads=2, context=16, vocabulary=61),
    "Gemma 3 step": partial(writer, Shape(2, 32, 4, 2, 8, 48, 61, context=16, window=8, full_every=2), "small step"),
    "Adam step": partial(adam_step, 2),
}


def example(model: Model) -> Example:
    """A model on its inputs, with states that are not zero, its variables in the middle."""
    graph, random = model.captured(), np.random.default_rng(9)
    drawn = {n: random.standard_normal(s.shape, dtype=np.float32) for n, s in graph.states.items() if not s.any()}
    states = {n: s if s.dtype != np.float32 else drawn.get(n, s) for n, s in graph.states.items()}
    variables = {v.name: (v.minimum + v.maximum) // 2 for v in graph.program.variables}
    return Example(graph.program, {**graph.weights, **states, **model.inputs}, variables, 1)
