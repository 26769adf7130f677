"""Steps of training as instructions. What varies from step to step is a tensor: each step is the same segment."""

from typing import NamedTuple

from eigentensor.stream.gradients import Derivation
from eigentensor.stream.recorder import Value


def descended(
    d: Derivation, parameter: Value, gradient: Value, rate: Value, velocity: Value | None, momentum: float, decay: float
) -> tuple[Value, Value | None]:
    """The parameter after a step of gradient descent, and its velocity; without momentum there is none.

    The first velocity is the gradient itself; `decay` times the parameter is added to the gradient.
    """
    if decay:
        gradient = d("add", gradient, d("mul", parameter, decay))
    if momentum:
        velocity = gradient if velocity is None else d("add", d("mul", velocity, momentum), gradient)
        gradient = velocity
    return d("sub", parameter, d("mul", gradient, rate)), velocity


class Moments(NamedTuple):
    """What Adam keeps: running means of a parameter's gradient and of its square, and the powers of both decays."""

    mean: Value
    square: Value


def adapted(
    d: Derivation,
    parameter: Value,
    gradient: Value,
    rate: Value,
    moments: Moments | None,
    powers: tuple[Value, Value],
    betas: tuple[float, float],
    epsilon: float,
) -> tuple[Value, Moments]:
    """The parameter after a step of Adam (Kingma, Ba: Adam, 2015, algorithm 1), and its moments.

    `powers` are both betas to the power of the number of the step, the first of which is 1.
    """
    first, second = betas
    mean, square = d("mul", gradient, 1 - first), d("mul", d("mul", gradient, gradient), 1 - second)
    if moments is not None:
        mean = d("add", d("mul", moments.mean, first), mean)
        square = d("add", d("mul", moments.square, second), square)
    corrected = d("div", mean, d("sub", 1.0, powers[0]))
    spread = d("add", d.emit("sqrt", None, d("div", square, d("sub", 1.0, powers[1]))), epsilon)
    return d("sub", parameter, d("mul", rate, d("div", corrected, spread))), Moments(mean, square)
