"""Tests that run on devices with work items: on CL few here and all in a long run, on CUDA all where there is a GPU."""

from collections.abc import Collection, Iterable
from random import Random
from typing import Any

import pytest

from eigentensor.program.model import Body
from eigentensor.runtime import devices
from eigentensor.runtime.gpu.grid import Grid, Many, candidate_grids
from eigentensor.runtime.gpu.gridded import Gridded, simple


def on_devices(cases: Iterable[Any], few: Collection[Any] = ()) -> list[Any]:
    """Parameters (device, case): `few` are the cases that every run tries on CL."""
    return [
        pytest.param(device, case, id=f"{device}-{case}", marks=marks)
        for case in cases
        for device, marks in (("CL", [] if case in few else [pytest.mark.slow]), ("CUDA", [pytest.mark.gpu]))
    ]


def usable(device: str) -> str:
    """The device, or the reason to skip a test that needs a GPU; OpenCL is everywhere."""
    reason = devices.devices()[device]
    if reason and device == "CUDA":
        pytest.skip(reason)
    assert not reason, reason
    return device


class AnyGrid(Gridded):
    """Compiles every body with a grid drawn at random, also with ones that a GPU would be given."""

    def schedule(self, body: Body) -> Grid:
        random = Random(f"{self.identity} {body!r}")
        target = random.choice((self.target, Many(500, 64, 32 << 10, copies=True), Many(4, 8, 4 << 10)))
        return random.choice(candidate_grids(simple(body), target))


class WidestGrid(Gridded):
    """Compiles every body with the grid that stages most, of these with the largest tile."""

    copies = False  #: whether copies that go on by themselves may be drawn

    def schedule(self, body: Body) -> Grid:
        return max(
            candidate_grids(simple(body), Many(500, 64, 32 << 10, copies=self.copies)),
            key=lambda g: (g.ahead, g.chunk, len(g.rows), g.high * g.broad, g.crew),
        )


class AheadGrid(WidestGrid):
    """Compiles every body with the grid that has most copies under way."""

    copies = True


def other(kind: type[Gridded], here: Gridded, seed: int = 0) -> Gridded:
    """The same compiler with other grids, and other names in the cache."""
    identity = f"{here.identity} {kind.__name__} {seed}"
    return kind(identity, here.target, here.header, here.build, here.queue, device=here.device, schedules={})
