"""The models of `models` as PyTorch code with the same weights, where PyTorch is installed: to measure beside."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tinygrad import nn
from torch.nn import functional as F  # noqa: N812 (as everybody names it)

from support.programs import models
from support.programs.models import Model

Weights = dict[str, torch.Tensor]


def twin(model: Model) -> Callable[[], Any]:
    """What runs the model on its inputs, once for each call."""
    named = nn.state.get_state_dict(model.model).items()
    weights = {name: torch.from_numpy(tensor.numpy().copy()) for name, tensor in named}
    inputs = [torch.from_numpy(array) for array in model.inputs.values()]
    match model.model:
        case models.Training() as training:
            return _training(weights, FORWARD[type(training.network)], *inputs)
        case models.Digits():
            function = partial(_digits, weights, *inputs)
        case models.ResNet18():
            function = partial(_resnet18, weights, *inputs)
        case models.Bert() | models.Gpt2() as transformer:
            forward = _bert if isinstance(transformer, models.Bert) else _gpt2
            sizes = {"layers": len(transformer.layers), "heads": transformer.layers[0].heads}
            function = partial(forward, weights, *inputs, **sizes)
        case models.Vit() | models.Listener() as encoder:
            encoded = _vit if isinstance(encoder, models.Vit) else _listener
            sizes = {"layers": len(encoder.layers), "heads": encoder.layers[0].heads}
            function = partial(encoded, weights, *inputs, **sizes)
        case models.UNet():
            function = partial(_unet, weights, *inputs)
        case _:
            raise ValueError(f"no twin of {model.name}")

    def run() -> Any:
        with torch.inference_mode():
            return function()

    return run


def _digits(w: Weights, images: torch.Tensor, prefix: str = "") -> torch.Tensor:
    def part(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return w[f"{prefix}{name}.weight"], w[f"{prefix}{name}.bias"]

    x = F.max_pool2d(F.conv2d(images, *part("first"), padding=1).relu(), 2)
    x = F.max_pool2d(F.conv2d(x, *part("second"), padding=1).relu(), 2)
    return F.linear(x.flatten(1), *part("last"))


def _norm(w: Weights, x: torch.Tensor, name: str) -> torch.Tensor:
    parts = (w[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
    return F.batch_norm(x, *parts)


def _resnet18(w: Weights, images: torch.Tensor) -> torch.Tensor:
    x = _norm(w, F.conv2d(images, w["first.weight"], stride=2, padding=3), "first_norm").relu()
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    for number in range(8):
        name = f"blocks.{number}"
        stride = 2 if f"{name}.shortcut.weight" in w else 1
        y = _norm(w, F.conv2d(x, w[f"{name}.first.weight"], stride=stride, padding=1), f"{name}.first_norm").relu()
        y = _norm(w, F.conv2d(y, w[f"{name}.second.weight"], padding=1), f"{name}.second_norm")
        if stride > 1:
            x = _norm(w, F.conv2d(x, w[f"{name}.shortcut.weight"], stride=stride), f"{name}.shortcut_norm")
        x = (x + y).relu()
    return F.linear(x.mean((2, 3)), w["last.weight"], w["last.bias"])


def _linear(w: Weights, x: torch.Tensor, name: str) -> torch.Tensor:
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def _layernorm(w: Weights, x: torch.Tensor, name: str) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])


def _bert(w: Weights, tokens: torch.Tensor, layers: int, heads: int) -> torch.Tensor:
    x = _layernorm(w, F.embedding(tokens, w["words.weight"]) + w["places.weight"], "norm")
    for n in range(layers):
        x = _layer(w, x, f"layers.{n}", heads)
    return x.mean(1)


def _layer(w: Weights, x: torch.Tensor, name: str, heads: int) -> torch.Tensor:
    batch, length, width = x.shape
    q, k, v = (
        _linear(w, x, f"{name}.{part}").reshape(batch, length, heads, -1).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
    x = _layernorm(w, x + _linear(w, mixed, f"{name}.out"), f"{name}.first_norm")
    inner = F.gelu(_linear(w, x, f"{name}.up"), approximate="tanh")
    return _layernorm(w, x + _linear(w, inner, f"{name}.down"), f"{name}.second_norm")


def _vit(w: Weights, images: torch.Tensor, layers: int, heads: int) -> torch.Tensor:
    size = w["patches.weight"].shape[-1]
    x = F.conv2d(images, w["patches.weight"], w["patches.bias"], stride=size).flatten(2).transpose(1, 2)
    x = x + w["places.weight"]
    for n in range(layers):
        x = _layer(w, x, f"layers.{n}", heads)
    return _linear(w, x.mean(1), "last")


def _listener(w: Weights, sound: torch.Tensor, layers: int, heads: int) -> torch.Tensor:
    x = F.gelu(F.conv1d(sound, w["first.weight"], w["first.bias"], padding=1), approximate="tanh")
    x = F.gelu(F.conv1d(x, w["second.weight"], w["second.bias"], stride=2, padding=1), approximate="tanh")
    x = x.transpose(1, 2) + w["places.weight"]
    for n in range(layers):
        x = _layer(w, x, f"layers.{n}", heads)
    return x


def _conv(w: Weights, x: torch.Tensor, name: str, stride: int = 1) -> torch.Tensor:
    weight = w[f"{name}.weight"]
    return F.conv2d(x, weight, w.get(f"{name}.bias"), stride=stride, padding=weight.shape[-1] // 2)


def _normed(w: Weights, x: torch.Tensor, name: str) -> torch.Tensor:
    def part(x: torch.Tensor, word: str) -> torch.Tensor:
        norm = f"{name}.{word}_norm"
        return _conv(w, F.silu(F.group_norm(x, 8, w[f"{norm}.weight"], w[f"{norm}.bias"])), f"{name}.{word}")

    y = part(part(x, "first"), "second")
    return y + (_conv(w, x, f"{name}.shortcut") if f"{name}.shortcut.weight" in w else x)


def _unet(w: Weights, x: torch.Tensor) -> torch.Tensor:
    high = _normed(w, _conv(w, x, "first"), "high")
    low = _normed(w, _conv(w, high, "down", 2), "low")
    tokens = _layer(w, low.flatten(2).transpose(1, 2), "among", 4)
    wide = F.interpolate(tokens.transpose(1, 2).reshape(low.shape), scale_factor=2)
    return _conv(w, _normed(w, torch.cat((_conv(w, wide, "up"), high), 1), "joined"), "last")


def _gpt2(w: Weights, token: torch.Tensor, layers: int, heads: int) -> torch.Tensor:
    """The step at the last position: all of the cache is read."""
    position = len(w["places.weight"]) - 1
    x = F.embedding(token, w["words.weight"]) + w["places.weight"][position]
    for name in (f"layers.{n}" for n in range(layers)):
        query, key, value = _linear(w, _layernorm(w, x, f"{name}.first_norm"), f"{name}.attend").chunk(3, -1)
        w[f"{name}.keys"][:, position] = key[:, 0]
        w[f"{name}.values"][:, position] = value[:, 0]
        q, k, v = (
            t.reshape(1, t.shape[1], heads, -1).transpose(1, 2) for t in (query, w[f"{name}.keys"], w[f"{name}.values"])
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + _linear(w, mixed, f"{name}.out")
        inner = F.gelu(_linear(w, _layernorm(w, x, f"{name}.second_norm"), f"{name}.up"), approximate="tanh")
        x = x + _linear(w, inner, f"{name}.down")
    return _layernorm(w, x, "norm") @ w["words.weight"].T


def _hidden(w: Weights, x: torch.Tensor, prefix: str) -> torch.Tensor:
    return _linear(w, _linear(w, _linear(w, x, f"{prefix}first").relu(), f"{prefix}second").relu(), f"{prefix}last")


def _classified(w: Weights, x: torch.Tensor, prefix: str) -> torch.Tensor:
    return _linear(w, _layer(w, x, f"{prefix}layers.0", 8).mean(1), f"{prefix}last")


def _batchnormed(w: Weights, x: torch.Tensor, prefix: str) -> torch.Tensor:
    for name, stride in (("first", 1), ("second", 2)):
        running = (w[f"{prefix}{name}_norm.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        x = F.batch_norm(_conv(w, x, f"{prefix}{name}", stride), *running, training=True).relu()
    return _linear(w, x.mean((2, 3)), f"{prefix}last")


#: What a network that is trained computes.
FORWARD: dict[type, Callable[[Weights, torch.Tensor, str], torch.Tensor]] = {
    models.Digits: _digits,
    models.Hidden: _hidden,
    models.Classified: _classified,
    models.BatchNormed: _batchnormed,
}


def _training(
    w: Weights,
    forward: Callable[[Weights, torch.Tensor, str], torch.Tensor],
    images: torch.Tensor,
    labels: torch.Tensor,
) -> Callable[[], Any]:
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    named = {name: tensor for name, tensor in w.items() if name.startswith("network.")}
    learnt = [tensor.requires_grad_() for name, tensor in named.items() if not name.endswith(statistics)]
    optimizer = torch.optim.Adam(learnt, lr=1e-3)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(named, images, "network."), labels.long())
        loss.backward()
        optimizer.step()
        return loss

    return step
