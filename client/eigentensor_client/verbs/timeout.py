"""How long a verb may take: all of it, what it asks of others and what it computes."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from eigentensor.errors import NotYet
from eigentensor.talk import WAITS

GRACE = 0.5  # seconds more: what waits for a task says itself, and better, that its time is over


class TimeIsUp(KeyboardInterrupt):
    """Ctrl-C by the clock: what is under way ends as it does then, and says how to go on."""


@dataclass(frozen=True, slots=True)
class Clock:
    """When a verb is to end, by the monotonic clock; None: whenever it likes."""

    end: float | None

    def left(self) -> float | None:
        """Seconds until then; None: as many as it takes."""
        return None if self.end is None else max(0.0, self.end - time.monotonic())


@contextmanager
def within(timeout: float | None) -> Iterator[Clock]:
    """Ends the block after so many seconds, whatever it does then. Raises NotYet. With 0 nothing is waited for: then
    what asks others has the time that it always has."""
    clock = Clock(None if timeout is None else time.monotonic() + timeout)
    if not timeout or not hasattr(signal, "setitimer"):  # without it only what waits for others ends in time
        yield clock
        return
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, timeout + GRACE)
    try:
        yield clock
    except TimeIsUp as up:
        raise NotYet(
            f"not done after {timeout:g} s{up}",
            fix="Allow more with --timeout. What was posted goes on: `eigentensor ps` lists it.",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(number: int, frame: FrameType | None) -> None:
    waits = WAITS.get()
    raise TimeIsUp(f": it waited for {waits.whom}" if waits and waits.whom else "")
