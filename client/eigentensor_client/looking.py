"""Executing somebody's result again: confined and within limits, as operators do, and saying what differs first."""

from contextlib import suppress
from dataclasses import dataclass

from eigentensor import rechecked
from eigentensor.bound import Bound
from eigentensor.dispute import refuse
from eigentensor.errors import EigenTensorError, LimitError, NotDisputable
from eigentensor.program.cost import needs_of
from eigentensor.store import GatewayClient
from eigentensor_client.differences import Difference, first_difference
from eigentensor_client.transfer import Tell, download, silent


@dataclass(frozen=True, slots=True)
class Look:
    """A result that was executed again: its outputs root, and what differs first, where the claimed bytes are known."""

    agrees: bool
    outputs_root: bytes
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """What one execution may take: bytes of the program's tensors, seconds; `unsafe` does without the sandbox."""

    memory: int
    seconds: float
    unsafe: bool = False


def look_again(bound: Bound, claimed: bytes, gateway: GatewayClient, means: Means, tell: Tell = silent) -> Look:
    """Executes what an order names, twice if it gives another result, and rechecks samples with the reference.

    Raises NotDisputable, LimitError, what executing raises, WrongBits if this device cannot be trusted.
    """
    _check_size(bound, means.memory)
    tell("executing it again")
    limits = rechecked.limits(means.memory, means.seconds)
    root, results = rechecked.repeated(bound, claimed, limits, unsafe=means.unsafe)
    if root == claimed:
        return Look(True, root)
    tell("comparing it with the executor's")
    with suppress(EigenTensorError):  # what differs first is told where it is known, and challenged all the same
        said = download(gateway, bound.program, claimed, tell)
        return Look(False, root, first_difference(bound.program, bound.repeat, said, results))
    return Look(False, root)


def _check_size(bound: Bound, memory: int) -> None:
    if (why := refuse(bound.program, bound.repeat)) is not None:
        raise NotDisputable(why)
    needed = needs_of(bound.program, bound.repeat).memory
    if needed > memory:
        raise LimitError(
            f"its tensors take {needed:,} bytes, at most {memory:,} are allowed here",
            fix="Allow more with --max-memory.",
        )
