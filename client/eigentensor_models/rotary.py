"""Rotary embeddings as configurations name them: from their parameters to the angle of each pair, in float32."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eigentensor_models.architecture import Rotary
from eigentensor_models.options import Options

Angles = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Turning:
    """What is turned, for how long: elements of a head, and the positions that the model was made for."""

    size: int
    context: int
    first_context: int | None = None  # before it was made longer


def rotary(parameters: Options, turning: Turning, base: float = 10_000.0, part: float = 1.0) -> Rotary:
    """The embedding that parameters describe (`rope_type`, `rope_theta`, …); `base`, and the `part` of a head that
    turns, if they do not name them.

    Raises ConfigError for a kind, or a parameter, that is not known.
    """
    kind = parameters.chosen("rope_type", parameters.word("type", "default"), *_KINDS)
    if kind not in _KINDS:
        raise parameters.unknown("rope_type", kind)
    size = int(turning.size * parameters.number("partial_rotary_factor", part))
    if not 2 <= size <= turning.size or size % 2:
        raise parameters.wrong(f"{size} of {turning.size} elements cannot turn in pairs", "Take another model.")
    theta = parameters.number("rope_theta", base)
    if theta <= 1:
        raise parameters.wrong(f"rope_theta is {theta}", "It is a number above one.")
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    with np.errstate(all="ignore"):  # what is not finite is refused
        wavelengths = np.power(np.float32(theta), exponents, dtype=np.float32)
        angles, scale = _KINDS[kind](parameters, wavelengths, theta, turning)
    parameters.close()
    if not np.isfinite(angles).all() or not math.isfinite(scale):
        raise parameters.wrong("its angles are not finite", "Look at its numbers.")
    return Rotary(tuple(angles.tolist()), scale)


def _default(_: Options, wavelengths: Angles, theta: float, turning: Turning) -> tuple[Angles, float]:
    return np.float32(1) / wavelengths, 1.0


def _linear(parameters: Options, wavelengths: Angles, theta: float, turning: Turning) -> tuple[Angles, float]:
    """Positions count less."""
    return np.float32(1) / wavelengths / np.float32(parameters.number("factor")), 1.0


def _dynamic(parameters: Options, wavelengths: Angles, theta: float, turning: Turning) -> tuple[Angles, float]:
    """Slower turns in texts that are longer than the model was made for: here there are none."""
    parameters.number("factor")
    parameters.ignore("original_max_position_embeddings")
    return np.float32(1) / wavelengths, 1.0


def _llama3(parameters: Options, wavelengths: Angles, theta: float, turning: Turning) -> tuple[Angles, float]:
    """Slow turns are slower, fast ones stay, those between are between."""
    factor, low, high = (parameters.number(n) for n in ("factor", "low_freq_factor", "high_freq_factor"))
    first = parameters.whole("original_max_position_embeddings", turning.context)
    if high <= low:
        raise parameters.wrong("high_freq_factor is not above low_freq_factor", "Look at both.")
    angles = np.float32(1) / wavelengths
    turns = first * angles / np.float32(2 * math.pi)  # in the first context
    share = (turns - np.float32(low)) / np.float32(high - low)
    between = (1 - share) * angles / np.float32(factor) + share * angles
    slow = np.where(turns < low, angles / np.float32(factor), between)
    return np.where(turns > high, angles, slow).astype(np.float32), 1.0


def _yarn(parameters: Options, wavelengths: Angles, theta: float, turning: Turning) -> tuple[Angles, float]:
    """Slow turns are slower, by a ramp over the pairs; scores grow a little with the factor."""
    factor = parameters.number("factor")
    first = parameters.whole("original_max_position_embeddings", turning.context)
    size = 2 * len(wavelengths)

    def pair(turns: float) -> float:
        return size * math.log(first / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(parameters.number("beta_fast", 32.0)), pair(parameters.number("beta_slow", 1.0))
    if parameters.flag("truncate", True):
        low, high = float(math.floor(low)), float(math.ceil(high))
    low, high = max(low, 0.0), min(high, size - 1.0)
    high += 0.001 * (low == high)
    ramp = np.clip((np.arange(size // 2, dtype=np.float32) - np.float32(low)) / np.float32(high - low), 0, 1)
    angles = np.float32(1) / (np.float32(factor) * wavelengths) * ramp + np.float32(1) / wavelengths * (1 - ramp)
    return angles.astype(np.float32), _yarn_scale(parameters, factor)


def _yarn_scale(parameters: Options, factor: float) -> float:
    def grown(by: float) -> float:
        return 0.1 * by * math.log(factor) + 1.0 if factor > 1 else 1.0

    if parameters.has("attention_factor"):
        return parameters.number("attention_factor")
    if parameters.has("mscale") and parameters.has("mscale_all_dim"):
        return grown(parameters.number("mscale")) / grown(parameters.number("mscale_all_dim"))
    return grown(1.0)


def _longrope(parameters: Options, wavelengths: Angles, theta: float, turning: Turning) -> tuple[Angles, float]:
    """A factor for each pair; here those of texts that are not longer than the first context."""
    first = parameters.whole("original_max_position_embeddings", turning.first_context or turning.context)
    factor = parameters.number("factor", turning.context / first)
    usual = math.sqrt(1 + math.log(factor) / math.log(first)) if factor > 1 and first > 1 else 1.0
    scale = parameters.number("attention_factor", usual)
    factors = {name: _numbers(parameters, name, len(wavelengths)) for name in ("short_factor", "long_factor")}
    return np.float32(1) / (factors["short_factor"] * wavelengths), scale


def _numbers(parameters: Options, name: str, count: int) -> Angles:
    values = parameters.numbers(name)
    if values is None or len(values) != count:
        raise parameters.wrong(f"{name} is not a list of {count} numbers", "Look at that line.")
    return np.array(values, np.float32)


_KINDS = {
    "default": _default, "linear": _linear, "dynamic": _dynamic, "llama3": _llama3, "yarn": _yarn,
    "longrope": _longrope, "su": _longrope,
}  # fmt: skip
