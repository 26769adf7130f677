"""What a device and its machine are, and how fast the device's clocks ran meanwhile."""

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from tinygrad.runtime.autogen import cuda as driver
from tinygrad.runtime.ops_cuda import check

from eigentensor.errors import ExecutionError
from eigentensor.runtime.gpu import cuda, nvrtc, opencl
from support.campaigns.campaign import Line

#: What nvidia-smi is asked for.
FIXED = ("name", "driver_version", "vbios_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit")
MOVING = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "utilization.gpu")
EVERY = 1.0  #: seconds between two looks at the clocks


def about(device: str) -> Line:
    """The machine, the device, its driver and its compiler. Raises ExecutionError where it cannot be used."""
    here: Line = {"python": platform.python_version(), "processors": len(os.sched_getaffinity(0))}
    if device == "CUDA":
        return here | _cuda() | {"smi": _asked(FIXED) | _asked(MOVING)}
    return here | {"device": opencl.queue().name if device == "CL" else device}


def _cuda() -> Line:
    here = cuda.queue()
    name, release = ctypes.create_string_buffer(256), ctypes.c_int()
    check(driver.cuDeviceGetName(ctypes.cast(name, ctypes.POINTER(ctypes.c_char)), 256, here.device.cu_device))
    check(driver.cuDriverGetVersion(ctypes.byref(release)))
    numbers = {
        "multiprocessors": driver.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        "kHz": driver.CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
        "kHz of memory": driver.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
        "bits of memory bus": driver.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        "bytes of L2": driver.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
    }
    line: Line = {"device": name.value.decode(), "architecture": here.device.arch, "CUDA of the driver": release.value}
    line |= {what: here.attribute(number) for what, number in numbers.items()}
    try:
        return line | {"compiler": f"NVRTC {nvrtc.release()}"}
    except ExecutionError:
        return line | {"compiler": None}


@contextmanager
def clocks() -> Iterator[Line]:
    """Least, median and most of what moves, in the dictionary when this ends; empty without nvidia-smi."""
    line: Line = {}
    samples: list[Line] = []
    over = Event()

    def look() -> None:
        while not over.wait(EVERY):
            samples.append(_asked(MOVING))

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        thread.join(10)
        for name in MOVING:
            seen = sorted(sample[name] for sample in samples if isinstance(sample.get(name), float))
            if seen:
                line[name] = [seen[0], seen[len(seen) // 2], seen[-1]]


def _asked(what: tuple[str, ...]) -> Line:
    """Numbers and texts of nvidia-smi, of the first GPU; empty if there is none."""
    if shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", f"--query-gpu={','.join(what)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return {}
    values = done.stdout.splitlines()[0].split(", ") if done.stdout else []
    return dict(zip(what, map(_number, values), strict=False))


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text.strip()
