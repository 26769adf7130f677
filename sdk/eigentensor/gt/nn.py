"""Modules, losses and optimisers, by PyTorch's and GT's names."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from eigentensor.errors import CaptureError, ConfigError
from eigentensor.gt.connection import recorder
from eigentensor.gt.creation import arange, randn, zeros
from eigentensor.gt.several import maximum, where
from eigentensor.gt.tensors import Tensor, no_grad
from eigentensor.numerics.dtypes import DType
from eigentensor.stream.gradients import Derivation
from eigentensor.stream.operations import user_line
from eigentensor.stream.optimisers import Moments, adapted, descended
from eigentensor.stream.recorder import Value


class Module:
    """What has parameters: every tensor with `requires_grad`, and those of every module, among its attributes."""

    def __init__(self) -> None:
        self._parameters: list[Tensor] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes. A module of one's own says that."""
        raise CaptureError(f"{type(self).__name__} has no forward", fix="Define it: def forward(self, x).")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def parameters(self) -> list[Tensor]:
        """Each once, in the order of the attributes, those of modules within, also of lists and dicts of them."""
        return list({id(tensor): tensor for tensor in _tensors(vars(self))}.values())

    def zero_grad(self) -> None:
        """Forgets the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, Module):
        yield from value.parameters()
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


class Linear(Module):
    """x @ weight + bias, with a weight of shape (inputs, outputs) drawn from N(0, 0.01²) and a bias of zeros."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = (randn(in_features, out_features) * 0.01).requires_grad_()
        self.bias = zeros(out_features, requires_grad=True) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The last axis of x, of extent `in_features`, becomes one of `out_features`."""
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


def relu(x: Tensor) -> Tensor:
    """Each element, or 0 where it is negative."""
    return x.relu()


def sigmoid(x: Tensor) -> Tensor:
    """1/(1 + e⁻ˣ) of each element."""
    return x.sigmoid()


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of each element."""
    return x.tanh()


def mse_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """The mean square of what the prediction is off by."""
    off = predicted - target
    return (off * off).mean()


def binary_cross_entropy(predicted: Tensor, target: Tensor) -> Tensor:
    """The mean of −log of the probability given to what is so: `target` is 1 or 0, or between. No logarithm is below
    −100."""
    yes = target * maximum(predicted.log(), -100.0)
    no = (1 - target) * maximum((1 - predicted).log(), -100.0)
    return -(yes + no).mean()


def cross_entropy_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean of −log of the probability that softmax along the last axis gives to what is so.

    `targets` are classes, integers with an axis less, or probabilities of all classes. With one class only, logits go
    through a sigmoid, and targets are 1 or 0.
    """
    classes = logits.shape[-1]
    if classes == 1:
        return (logits.softplus() - logits * targets).mean()
    logarithm = logits.log_softmax()
    if targets.shape == logits.shape:
        chosen = targets * logarithm
    elif targets.shape == logits.shape[:-1] and not targets._value.kind.dtype.is_float:
        chosen = where(targets.unsqueeze(-1) == arange(classes), logarithm, 0.0)
    else:
        raise CaptureError(
            f"targets of {targets.dtype}, shape {targets.shape}, for logits of shape {logits.shape}",
            fix="Give integers with an axis less, or a probability for each class.",
            line=user_line(),
        )
    return -(chosen.sum(-1)).mean()


class Optimiser:
    """What steps of training have in common: parameters, a learning rate that may be changed, `zero_grad`."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        self.params = list({id(p): p for p in params}.values())
        self.lr = lr
        self._rate: tuple[float, Value] | None = None
        for number, parameter in enumerate(self.params):
            if not parameter.requires_grad:
                raise ConfigError(f"parameter {number} has no gradient", fix="Make it with requires_grad=True.")

    def zero_grad(self) -> None:
        """Forgets the gradients of all parameters."""
        for parameter in self.params:
            parameter.grad = None

    def step(self) -> None:
        """Changes every parameter that has a gradient, in place."""
        own = recorder()
        with no_grad():
            self._step(Derivation(own), self._tensor_of_rate())
        own.turn()

    def _step(self, d: Derivation, rate: Value) -> None:
        raise NotImplementedError

    def _tensor_of_rate(self) -> Value:
        """A tensor, so that another rate makes no other segment."""
        if self._rate is None or self._rate[0] != self.lr:
            self._rate = self.lr, recorder().put(np.array(self.lr, np.float32), DType.FLOAT32)
        return self._rate[1]


class SGD(Optimiser):
    """Gradient descent, with momentum and weight decay as PyTorch's."""

    def __init__(
        self, params: Iterable[Tensor], lr: float = 0.01, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, lr)
        self.momentum, self.weight_decay = momentum, weight_decay
        self._velocities: dict[int, Value | None] = {}

    def _step(self, d: Derivation, rate: Value) -> None:
        for number, parameter in enumerate(self.params):
            if (gradient := parameter.grad) is not None:
                before = self._velocities.get(number)
                value, self._velocities[number] = descended(
                    d, parameter._value, gradient._value, rate, before, self.momentum, self.weight_decay
                )
                parameter._value = value


class Adam(Optimiser):
    """Adam, as PyTorch's."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr)
        self.betas, self.eps = betas, eps
        self._moments: dict[int, Moments] = {}
        self._powers: dict[int, tuple[Value, Value]] = {}

    def _step(self, d: Derivation, rate: Value) -> None:
        ones: Value | None = None
        for number, parameter in enumerate(self.params):
            if (gradient := parameter.grad) is None:
                continue
            if number not in self._powers:
                ones = ones or recorder().put(np.ones((), np.float32), DType.FLOAT32)
            first, second = self._powers.get(number) or (ones, ones)
            assert first is not None and second is not None
            powers = d("mul", first, self.betas[0]), d("mul", second, self.betas[1])
            parameter._value, self._moments[number] = adapted(
                d, parameter._value, gradient._value, rate, self._moments.get(number), powers, self.betas, self.eps
            )
            self._powers[number] = powers
