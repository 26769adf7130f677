"""The device CL: kernels of OpenCL C, compiled and launched with what tinygrad opens as its OpenCL device."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from tinygrad.device import BufferSpec, Device
from tinygrad.runtime.autogen import opencl as cl
from tinygrad.runtime.ops_cl import BP_CB, check, checked

from eigentensor.errors import ExecutionError, LimitError
from eigentensor.runtime.build.compilers import check_release
from eigentensor.runtime.gpu import nodes
from eigentensor.runtime.gpu.grid import Many
from eigentensor.runtime.gpu.gridded import Gridded, Launch
from eigentensor.runtime.gpu.simt import NAME
from eigentensor.runtime.reach import SCRATCH, Reach

OPTIONS = b"-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
#: What the arithmetic of float32 must be able to do, by the bits of OpenCL's table.
NEEDED = {"subnormal numbers": 1, "infinity and NaN": 2, "rounding to nearest": 4, "rounded division and sqrt": 128}
DRIVERS = Path("/etc/OpenCL")  #: names their libraries
#: What drives a processor.
PROCESSOR = Reach(
    (DRIVERS, *map(Path, ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system"))),
    environment=(("POCL_CACHE_DIR", "/tmp"),),
    scratch=SCRATCH,
)
KEPT = BufferSpec(nolru=True)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of OpenCL, and of its absence, as ours."""
    try:
        yield
    except MemoryError as error:
        raise LimitError(str(error)) from None
    except (RuntimeError, AttributeError, OSError) as error:
        raise ExecutionError(
            f"OpenCL: {error}", fix="Install a driver of OpenCL for a device of this machine."
        ) from error


@cache
def queue() -> "OpenCL":
    """The OpenCL device of this process, opened when it is first asked for. Raises ExecutionError without one."""
    return OpenCL()


@cache
def toolchain() -> Gridded:
    """The compiler of the OpenCL device. Raises ExecutionError if there is none, or none with exact arithmetic."""
    check_release()
    with translated():
        here = queue()
        lacking = [name for name, bit in NEEDED.items() if not here.number(cl.CL_DEVICE_SINGLE_FP_CONFIG) & bit]
        is_processor = here.number(cl.CL_DEVICE_TYPE) & cl.CL_DEVICE_TYPE_CPU
        shared = 0 if here.number(cl.CL_DEVICE_LOCAL_MEM_TYPE) != 1 else here.number(cl.CL_DEVICE_LOCAL_MEM_SIZE)
        units = here.number(cl.CL_DEVICE_MAX_COMPUTE_UNITS)
        items = 64 if is_processor else min(256, here.number(cl.CL_DEVICE_MAX_WORK_GROUP_SIZE))
    if lacking:
        raise ExecutionError(f"the OpenCL device {here.name} cannot do {', '.join(lacking)}", fix="Use another device.")
    target = Many(units, items, shared)
    identity = f"{here.name}\n{OPTIONS!r}"
    reach = PROCESSOR if is_processor else _card()
    command = () if reach is None else (sys.executable, "-m", __name__)
    # only a device's own driver compiles for it
    reaches = () if reach is None else (reach, reach)
    return Gridded(identity, target, "opencl.h", here.build, queue, command, *reaches, device="CL")


def _card() -> Reach | None:
    """What drives the GPUs of this machine, which OpenCL does not tell apart; None if they have no device files."""
    if files := nodes.nvidia():
        return nodes.nvidia_reach(files, files=(DRIVERS,))
    if files := nodes.render():
        return nodes.render_reach(files, (DRIVERS,))
    return None


class OpenCL:
    """tinygrad's OpenCL device as a Queue."""

    def __init__(self) -> None:
        # PoCL would else compile again for every number of groups, when a kernel is launched
        os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")
        with translated():
            self.device: Any = Device["CL"]
        self.name = f"{self.device.device_name} {self.device.driver_version}"
        self.alignment = self.number(cl.CL_DEVICE_MEM_BASE_ADDR_ALIGN) // 8

    def number(self, what: int) -> int:
        """A fact about the device that is a number of at most 64 bits."""
        value = ctypes.c_uint64()
        check(cl.clGetDeviceInfo(self.device.cl_dev, what, 8, ctypes.byref(value), None))
        return value.value

    def build(self, text: str) -> bytes:
        """The device's binary of a text; with options that tinygrad's own compiler does not give."""
        with translated():
            source = ctypes.create_string_buffer(text.encode())
            strings = (ctypes.POINTER(ctypes.c_char) * 1)(ctypes.cast(source, ctypes.POINTER(ctypes.c_char)))
            status = ctypes.c_int32()
            program = checked(cl.clCreateProgramWithSource(self.device.context, 1, strings, None, status), status)
            try:
                self._build(program)
                size, length = ctypes.c_size_t(), ctypes.sizeof(ctypes.c_size_t)
                check(cl.clGetProgramInfo(program, cl.CL_PROGRAM_BINARY_SIZES, length, ctypes.byref(size), None))
                binary = ctypes.create_string_buffer(size.value)
                places = (ctypes.c_void_p * 1)(ctypes.addressof(binary))
                check(cl.clGetProgramInfo(program, cl.CL_PROGRAM_BINARIES, ctypes.sizeof(places), places, None))
            finally:
                check(cl.clReleaseProgram(program))
            return binary.raw

    def kernel(self, code: bytes, name: str = NAME) -> Any:
        """The program of a binary that `build` made, ready for launches."""
        with translated():
            size, bytes_ = (ctypes.c_size_t * 1)(len(code)), ctypes.create_string_buffer(code, len(code))
            binary = (ctypes.POINTER(ctypes.c_ubyte) * 1)(ctypes.cast(bytes_, ctypes.POINTER(ctypes.c_ubyte)))
            each, status = ctypes.c_int32(), ctypes.c_int32()
            context, device = self.device.context, self.device.cl_dev
            program = checked(cl.clCreateProgramWithBinary(context, 1, device, size, binary, each, status), status)
            self._build(program)
            return _Owned(program, cl.clReleaseProgram, name)

    def _build(self, program: Any) -> None:
        if cl.clBuildProgram(program, 1, self.device.cl_dev, OPTIONS, BP_CB(), None):
            length, log = ctypes.c_size_t(), cl.CL_PROGRAM_BUILD_LOG
            cl.clGetProgramBuildInfo(program, self.device.cl_dev, log, 0, None, length)
            text = ctypes.create_string_buffer(length.value)
            cl.clGetProgramBuildInfo(program, self.device.cl_dev, log, length.value, text, None)
            raise ExecutionError(f"the OpenCL compiler failed: {text.value.decode(errors='replace')[-2000:]}")

    def allocate(self, size: int) -> "_Owned":
        """So many bytes of device memory, 16 at least, since OpenCL has no empty buffers; zeros, as they are again when
        it is given back.

        Raises LimitError if there are no more.
        """
        with translated():
            size = max(size, 16)
            buffer = _Owned(self.device.allocator.alloc(size, KEPT), lambda opaque: self._free(opaque, size))
            check(self._clear(buffer.opaque, size))
            return buffer

    def _free(self, opaque: Any, size: int) -> None:
        self._clear(opaque, size)
        cl.clFinish(self.device.queue)
        self.device.allocator.free(opaque, size, KEPT)

    def _clear(self, opaque: Any, size: int) -> int:
        return int(cl.clEnqueueFillBuffer(self.device.queue, opaque, ctypes.c_char_p(b"\0"), 1, 0, size, 0, None, None))

    def part(self, buffer: "_Owned", start: int, size: int) -> "_Owned":
        """A sub-buffer; `start` is a multiple of `alignment`."""
        with translated():
            region, status = cl.cl_buffer_region(start, size), ctypes.c_int32()
            kind = cl.CL_BUFFER_CREATE_TYPE_REGION
            made = cl.clCreateSubBuffer(buffer.opaque, cl.CL_MEM_READ_WRITE, kind, ctypes.byref(region), status)
            return _Owned(checked(made, status), cl.clReleaseMemObject, whole=buffer)

    def write(self, buffer: "_Owned", array: NDArray[Any]) -> None:
        """A copy to the device, which has arrived when this returns."""
        with translated():
            place = ctypes.cast(array.ctypes.data, ctypes.c_void_p)
            # blocking: the array is the caller's, and may change as soon as this returns
            check(
                cl.clEnqueueWriteBuffer(self.device.queue, buffer.opaque, True, 0, array.nbytes, place, 0, None, None)
            )

    def read(self, buffer: "_Owned", array: NDArray[Any]) -> None:
        """A copy to the host, after all that was launched before."""
        with translated():
            place = ctypes.cast(array.ctypes.data, ctypes.c_void_p)
            check(cl.clEnqueueReadBuffer(self.device.queue, buffer.opaque, True, 0, array.nbytes, place, 0, None, None))

    def copy(self, target: "_Owned", source: "_Owned", size: int) -> None:
        """A copy on the device; it is not waited for."""
        with translated():
            check(cl.clEnqueueCopyBuffer(self.device.queue, source.opaque, target.opaque, 0, 0, size, 0, None, None))

    def launcher(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """Each launch has a kernel of its own, whose arguments are set once."""
        ready = [self._ready(launch) for launch in launches]

        def launch() -> None:
            with translated():
                for kernel, size, items in ready:
                    check(
                        cl.clEnqueueNDRangeKernel(self.device.queue, kernel.opaque, 1, None, size, items, 0, None, None)
                    )

        return launch

    def _ready(self, launch: Launch) -> tuple["_Owned", Any, Any]:
        with translated():
            status = ctypes.c_int32()
            made = checked(cl.clCreateKernel(launch.kernel.opaque, launch.kernel.name.encode(), status), status)
            kernel = _Owned(made, cl.clReleaseKernel)
            arguments = [*(b.opaque for b in launch.buffers), *map(ctypes.c_int32, launch.numbers)]
            for number, argument in enumerate(arguments):
                check(cl.clSetKernelArg(made, number, ctypes.sizeof(argument), ctypes.byref(argument)))
            sizes = (ctypes.c_size_t * 1)(launch.groups * launch.items), (ctypes.c_size_t * 1)(launch.items)
            return kernel, *sizes

    def wait(self) -> None:
        """Returns when the device has done everything."""
        with translated():
            check(cl.clFinish(self.device.queue))


class _Owned:
    """Something of OpenCL's that is given back when nothing refers to it any more; of a program the kernel's name, of
    a part the whole."""

    def __init__(self, opaque: Any, release: Callable[[Any], Any], name: str = "", whole: "_Owned | None" = None):
        self.opaque, self.release, self.name, self.whole = opaque, release, name, whole

    def __del__(self) -> None:
        self.release(self.opaque)


if __name__ == "__main__":
    sys.stdout.buffer.write(queue().build(sys.stdin.read()))
    sys.stdout.buffer.flush()
    os._exit(0)  # the driver's threads end with the process
