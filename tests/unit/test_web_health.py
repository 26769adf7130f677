"""Whether what a service stands on answers: said in time, also of what hangs."""

import threading
from concurrent.futures import ThreadPoolExecutor

from eigentensor.web.server import Health


def fails() -> bool:
    raise OSError("gone")


def test_all_is_well_when_every_look_says_so() -> None:
    assert Health().is_well() and Health(lambda: True, lambda: True).is_well()
    assert not Health(lambda: True, lambda: False).is_well()
    assert not Health(lambda: True, fails).is_well()


def test_what_hangs_is_away_holds_nobody_up_and_is_looked_at_once() -> None:
    hangs, looks = threading.Event(), []

    def look() -> bool:
        looks.append(1)
        return hangs.wait(60)

    health = Health(look, patience=0.05)
    with ThreadPoolExecutor(8) as threads:
        assert not any(threads.map(lambda _: health.is_well(), range(8)))
    assert len(looks) == 1
    hangs.set()
    patient = Health(lambda: hangs.wait(60))
    assert patient.is_well() and patient.is_well()
