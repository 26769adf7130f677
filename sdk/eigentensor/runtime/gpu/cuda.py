"""The device CUDA: kernels that NVRTC made, launched as one graph on what tinygrad opens as its CUDA device."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from tinygrad import dtypes
from tinygrad.device import BufferSpec, Device, TinyELF
from tinygrad.helpers import Target
from tinygrad.runtime.autogen import cuda
from tinygrad.runtime.ops_cuda import CUDAProgram, check, encode_args
from tinygrad.runtime.support.c import DLL, init_c_var

from eigentensor.errors import ExecutionError, LimitError
from eigentensor.runtime.gpu import nodes, nvrtc
from eigentensor.runtime.gpu.gridded import Gridded, Launch
from eigentensor.runtime.gpu.simt import NAME

KEPT = BufferSpec(nolru=True)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of CUDA, and of its absence, as ours."""
    try:
        yield
    except MemoryError as error:
        raise LimitError(str(error)) from None
    except (RuntimeError, AttributeError, OSError) as error:
        raise ExecutionError(f"CUDA: {error}", fix="It needs a GPU of NVIDIA and its driver.") from error


@cache
def queue() -> "Cuda":
    """The CUDA device of this process, opened when it is first asked for. Raises ExecutionError without one."""
    return Cuda()


@cache
def toolchain() -> Gridded:
    """The compiler for the GPU of this machine. Raises ExecutionError if there is none, or no NVRTC."""
    here = queue()
    groups = here.attribute(cuda.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    made = nvrtc.toolchain(here.device.arch, groups, queue)
    if files := nodes.nvidia(nodes.minor_of(here.bus)):
        return replace(made, reach=nodes.nvidia_reach(files, here.libraries))
    return replace(made, command=())  # the driver is reached by other ways


class Cuda:
    """tinygrad's CUDA device as a Queue."""

    alignment = 256

    def __init__(self) -> None:
        _load()
        with translated():
            self.device: Any = Device["CUDA"]

    def attribute(self, what: int) -> int:
        """A number that the driver says about the device, by its CU_DEVICE_ATTRIBUTE."""
        with translated():
            return int(
                init_c_var(
                    ctypes.c_int,
                    lambda x: check(cuda.cuDeviceGetAttribute(ctypes.byref(x), what, self.device.cu_device)),
                ).value
            )

    @property
    def bus(self) -> str:
        """Where the GPU is on the bus, as domain:bus:device.function."""
        text = ctypes.create_string_buffer(32)
        with translated():
            place = ctypes.cast(text, ctypes.POINTER(ctypes.c_char))
            check(cuda.cuDeviceGetPCIBusId(place, len(text), self.device.cu_device))
        return text.value.decode()

    @property
    def libraries(self) -> Path:
        """The folder of the driver's libraries."""
        return Path(cuda.dll._name).resolve().parent

    def allocate(self, size: int) -> "_Bytes":
        """So many bytes of device memory, zeros, as they are again when it is given back. Raises LimitError if there
        are no more."""
        with self._current():
            return _Bytes(self.device, max(size, 16))

    def part(self, buffer: "_Bytes", start: int, size: int) -> "_View":
        """Some bytes of a buffer, which keep the whole of it."""
        return _View(buffer, self.device.allocator._offset(buffer.opaque, size, start))

    def write(self, buffer: Any, array: NDArray[Any]) -> None:
        """A copy to the device; the array may change as soon as this returns."""
        with self._current():
            check(cuda.cuMemcpyHtoD_v2(buffer.opaque, array.ctypes.data, array.nbytes))

    def read(self, buffer: Any, array: NDArray[Any]) -> None:
        """A copy to the host, after all that was launched before."""
        with self._current():
            check(cuda.cuMemcpyDtoH_v2(array.ctypes.data, buffer.opaque, array.nbytes))

    def copy(self, target: Any, source: Any, size: int) -> None:
        """A copy on the device; it is not waited for."""
        with self._current():
            check(cuda.cuMemcpyDtoDAsync_v2(target.opaque, source.opaque, size, None))

    def kernel(self, code: bytes, name: str = NAME) -> Any:
        """The kernel of a cubin, or of PTX, which the driver then compiles; loaded."""
        with self._current():
            return CUDAProgram(self.device, TinyELF(code, name, Target("CUDA"), ()))

    def launcher(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """A graph of the launches, each after the one before."""
        if not launches:
            return lambda: None
        with self._current():
            graph = _Graph(launches)

        def launch() -> None:
            with self._current():
                check(cuda.cuGraphLaunch(graph.instance, None))

        return launch

    def wait(self) -> None:
        """Returns when the device has done everything."""
        with translated():
            self.device.synchronize()

    @contextmanager
    def _current(self) -> Iterator[None]:
        with translated():
            check(cuda.cuCtxSetCurrent(self.device.context))
            yield


class _Bytes:
    """Memory of the device that is given back when nothing refers to it any more."""

    def __init__(self, device: Any, size: int) -> None:
        self.device, self.size = device, size
        self.opaque = device.allocator.alloc(size, KEPT)
        check(cuda.cuMemsetD8_v2(self.opaque, 0, size))

    def __del__(self) -> None:
        if hasattr(self, "opaque"):
            cuda.cuCtxSetCurrent(self.device.context)
            cuda.cuMemsetD8_v2(self.opaque, 0, self.size)  # whatever became of it: a failed context is at its end
            self.device.allocator.free(self.opaque, self.size, KEPT)


class _View:
    def __init__(self, whole: _Bytes, opaque: Any) -> None:
        self.whole, self.opaque = whole, opaque


class _Graph:
    """Launches that the driver keeps: starting all of them is one call. Holds what they use."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches
        self.graph = init_c_var(cuda.CUgraph, lambda x: check(cuda.cuGraphCreate(ctypes.byref(x), 0)))
        self.parameters = []
        before = None
        for launch in launches:
            signature = tuple((None, n, dtypes.int32, ()) for n in range(len(launch.buffers) + len(launch.numbers)))
            held, arguments = encode_args([b.opaque for b in launch.buffers], launch.numbers, signature)
            parameters = cuda.CUDA_KERNEL_NODE_PARAMS_v1(
                launch.kernel.prg, launch.groups, 1, 1, launch.items, 1, 1, 0,
                ctypes.cast(0, ctypes.POINTER(ctypes.c_void_p)), arguments,
            )  # fmt: skip
            node = cuda.CUgraphNode()
            needs: Any = None if before is None else (cuda.CUgraphNode * 1)(before)
            check(
                cuda.cuGraphAddKernelNode(
                    ctypes.byref(node), self.graph, needs, 0 if before is None else 1, ctypes.byref(parameters)
                )
            )
            self.parameters.append((held, arguments, parameters))
            before = node
        self.instance = init_c_var(
            cuda.CUgraphExec, lambda x: check(cuda.cuGraphInstantiate_v2(ctypes.byref(x), self.graph, None, None, 0))
        )

    def __del__(self) -> None:
        if hasattr(self, "instance"):
            cuda.cuGraphExecDestroy(self.instance)
        cuda.cuGraphDestroy(self.graph)


def _load() -> None:
    """The driver's library where tinygrad finds it, else where the system's loader does; its absence is told later."""
    if "cuda" in DLL._loaded_:
        return
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        mapped = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
        cuda.dll.__init__("cuda", [next(line[5] for line in mapped if "/libcuda.so" in line[-1])])
