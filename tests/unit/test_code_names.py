"""The name of object code in the cache changes with everything that decides the code."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grimp
import pytest

from eigentensor.program import Body
from eigentensor.runtime.build import compilers
from eigentensor.runtime.build.compilers import GENERATOR, Build
from eigentensor.runtime.build.names import body_name
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.schedule import Schedule, Target
from eigentensor.runtime.cpu.toolchain import FLAGS, Toolchain
from eigentensor.runtime.gpu.grid import Many
from eigentensor.runtime.gpu.gridded import Gridded
from support.programs.worked_examples import layer

CPU = Toolchain("clang 14", Target(16, 32), ("clang",), schedules={})
GPU = Gridded("NVRTC 12", Many(4, 64, 0), "cuda.h", None, lambda: pytest.fail("nothing runs"), schedules={})
#: What writes text, or decides what it says.
WRITERS = ("cpu.source", "cpu.choice", "gpu.simt", "gpu.grid", "bodies.rewriting")


@pytest.fixture
def body() -> Body:
    return layer().program.bodies[0]


def others(body: Body) -> Iterator[Build[Any]]:
    yield from (CPU, GPU)
    yield from (replace(build, identity="another") for build in (CPU, GPU))
    yield from (replace(build, device="another") for build in (CPU, GPU))
    yield replace(CPU, target=Target(8, 16))
    yield replace(GPU, target=Many(4, 64, 1 << 10))
    yield replace(GPU, header="opencl.h")
    yield replace(CPU, schedules={body_name(body): str(Schedule(lanes=4))})


def test_no_two_builds_give_code_one_name(body: Body) -> None:
    names = [build.key(body) for build in others(body)]
    assert len(set(names)) == len(names)


def test_another_body_has_another_name() -> None:
    bodies = layer().program.bodies
    assert len({CPU.key(body) for body in bodies}) == len(bodies)


def test_another_generator_gives_another_name(body: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {CPU.key(body), CPU.name("driver.c")}
    monkeypatch.setattr(compilers, "generator", lambda: "another")
    fresh = replace(CPU)
    assert before.isdisjoint({fresh.key(body), fresh.name("driver.c")})


def test_what_only_finds_code_finds_it_by_the_same_name(body: Body) -> None:
    assert replace(CPU, command=()).key(body) == Toolchain.from_json(CPU.to_json()).key(body) == CPU.key(body)
    assert replace(GPU, identity="").from_json(GPU.to_json()).key(body) == GPU.key(body)


@pytest.mark.parametrize("flag", ["-O2", "-fwrapv", "-ffp-contract=off", "-fno-slp-vectorize"])
def test_flags_of_clang_are_part_of_its_identity(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = toolchain.local().identity
    monkeypatch.setattr(toolchain, "FLAGS", tuple(f for f in FLAGS if f != flag))
    assert toolchain.local.__wrapped__().identity != here


def test_all_code_that_decides_text_is_read_by_the_generators_version() -> None:
    graph = grimp.build_graph("eigentensor")
    read = {module for writer in WRITERS for module in graph.find_upstream_modules(f"eigentensor.runtime.{writer}")}
    assert {module.split(".")[1] for module in read} <= {*GENERATOR, "errors"}
