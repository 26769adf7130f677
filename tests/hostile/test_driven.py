"""Programs in a process that drives a device: device files that a test makes, and OpenCL, go the way of a GPU."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.errors import LimitError
from eigentensor.program.codec import encode
from eigentensor.runtime import devices, doctor
from eigentensor.runtime.doctor import State
from eigentensor.runtime.gpu import nodes, nvrtc, opencl
from eigentensor.runtime.gpu.gridded import Gridded
from eigentensor.runtime.reach import Reach
from eigentensor.runtime.sandbox import execution, first
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.execution import run_sandboxed
from eigentensor.runtime.sandbox.tenant import Tenant
from eigentensor.runtime.sandbox.warm import WarmProgram
from support.clusters import added, square
from support.hostile.driven import attacked, attacks_on, surprising
from support.programs.long_program import endless

LIMITS = Limits(memory=2 << 30, threads=1)
X = np.arange(first.ELEMENTS, dtype=np.float32)
SIZE = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Reach:
    """Of PoCL, as if it were driven by device files: each is one that takes everything and does nothing."""
    folder = tmp_path_factory.mktemp("dev")
    try:
        for name in (*nodes.CONTROL, "nvidia3"):
            os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            os.close(os.open(folder / name, os.O_RDWR))
    except PermissionError as error:
        pytest.skip(f"device files cannot be made here: {error}")
    reach = nodes.nvidia_reach(nodes.nvidia(3, folder), files=opencl.PROCESSOR.files)
    return replace(reach, environment=(*reach.environment, *opencl.PROCESSOR.environment))


@pytest.fixture
def driven(card: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCL's device is such a card."""
    here = devices.of("CL")
    assert isinstance(here, Gridded)
    made = replace(here, reach=card)
    monkeypatch.setattr("eigentensor.runtime.devices.of", lambda device: made)


@pytest.mark.usefixtures("driven")
def test_a_program_is_executed_where_device_files_are() -> None:
    assert np.array_equal(run_sandboxed(encode(first.program()), {"x": X}, device="CL").outputs["y"], 2 * X)


@pytest.mark.usefixtures("driven")
def test_one_stays_there_and_others_come_to_a_sealed_process_also_after_one_without_end() -> None:
    with WarmProgram(first.program(), (), LIMITS, device="CL") as program:
        for n in range(3):
            assert np.array_equal(program.run({"x": X + np.float32(n)}).results.outputs["y"], 2 * X + np.float32(2 * n))
    of = Tenant(LIMITS, device="CL")
    try:
        results = of.run(b"added", added(2), {"x": square(2), "y": square(2, 2)})
        assert np.array_equal(results.outputs["output"], square(2, 3))
        with pytest.raises(LimitError, match="took too long"):
            of.run(b"endless", endless(), {}, seconds=0.5)
        assert np.array_equal(of.run(b"first", first.program(), {"x": X}).outputs["y"], 2 * X)
    finally:
        of.close()


def test_code_that_takes_over_what_drives_a_processor_reaches_nothing() -> None:
    tried = attacks_on(opencl.PROCESSOR)
    assert surprising(attacked("CL", opencl.PROCESSOR, tried), tried) == []


def test_code_that_takes_over_what_drives_device_files_reaches_these_alone(
    card: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "1")
    node = repr(str(card.nodes[0]))
    tried = attacks_on(card) | {
        # what computing needs comes to the file, which knows nothing of it
        f"fcntl.ioctl(os.open({node}, os.O_RDWR), 0xC0104629, bytes(16))": "Inappropriate ioctl for device",
        f"fcntl.ioctl(os.open({node}, os.O_RDWR), 0x30000001, bytes(16))": "Inappropriate ioctl for device",
        f"sorted(os.listdir({str(card.nodes[0].parent)!r}))": str(sorted(node.name for node in card.nodes)),
    }
    assert surprising(attacked("CL", card, tried), tried) == []


def test_memory_of_a_device_is_zeros_when_it_is_taken_and_before_it_is_given_back() -> None:
    queue, seen = opencl.queue(), np.empty(SIZE // 8, np.uint64)
    mark = np.full(SIZE // 8, 0xA5A5A5A5A5A5A5A5, np.uint64)  # which nothing else in this process has written

    def found(buffer: Any) -> int:
        queue.read(buffer, seen)
        return int((seen == mark).sum())

    def bare(size: int) -> opencl._Owned:
        allocator = queue.device.allocator
        return opencl._Owned(allocator.alloc(size, opencl.KEPT), lambda of: allocator.free(of, size, opencl.KEPT))

    for taken, given in ((queue.allocate, bare), (bare, queue.allocate)):
        some = [taken(SIZE) for _ in range(8)]
        for buffer in some:
            queue.write(buffer, mark)
        assert found(some[0]) == len(mark)
        del some, buffer
        again = [given(SIZE) for _ in range(8)]
        assert sum(map(found, again)) == 0


def test_kernels_for_cuda_are_compiled_where_no_device_is() -> None:
    def no_queue() -> Any:
        raise AssertionError("no device is opened")

    here = nvrtc.toolchain("sm_90", 132, no_queue)
    assert here.command and not here.compiling.nodes
    text = here.source(first.program().bodies[0])
    assert execution._compile(text, here, 60, unsafe=False) == here.compile(text)


def test_the_doctor_says_what_the_sandbox_gives(card: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    here = devices.of("CL")
    assert isinstance(here, Gridded)
    for made, state, words in (
        (replace(here, reach=card), State.OK, f"device files {card.nodes[0]}"),
        (replace(here, command=()), State.REFUSED, "/dev/nvidiactl"),
    ):
        monkeypatch.setattr(doctor, "of", lambda device, made=made: made)
        finding = doctor._confinement("CL")
        assert (finding.what, finding.name, finding.state) == ("sandbox", "CL", state)
        assert words in finding.says and bool(finding.fix) == (state is State.REFUSED)


def test_a_card_is_given_with_the_files_of_its_driver_or_not_at_all(card: Reach, tmp_path: Path) -> None:
    folder = card.nodes[0].parent
    assert [node.name for node in card.nodes] == ["nvidiactl", "nvidia-uvm", "nvidia3"]
    assert nodes.nvidia(None, folder) == card.nodes and nodes.nvidia(0, folder) == ()
    assert nodes.nvidia(None, tmp_path) == nodes.render(tmp_path) == ()
    information = tmp_path / "driver/nvidia/gpus/0000:ab:00.0/information"
    information.parent.mkdir(parents=True)
    information.write_text("Model: \t\t some\nDevice Minor: \t 3\n")
    assert nodes.minor_of("0000:AB:00.0", tmp_path) == 3 and nodes.minor_of("0000:00:00.0", tmp_path) is None
    assert Reach.from_json(card.to_json()) == card
