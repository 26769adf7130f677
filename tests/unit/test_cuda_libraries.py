"""Where the driver of CUDA and NVRTC are found: wherever the loader has them, and in NVIDIA's Python packages."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tinygrad.runtime.autogen import cuda
from tinygrad.runtime.support.c import DLL

#: A driver that has no device.
DRIVER = """
int cuInit(unsigned flags) { return 100; }
int cuGetErrorString(int error, const char **text) { *text = "a driver that the loader found"; return 0; }
"""


def said(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout


def test_the_driver_is_found_where_only_the_loader_finds_it(tmp_path: Path) -> None:
    if "cuda" in DLL._loaded_:
        pytest.skip("this machine has a driver of its own")
    library = tmp_path / "libcuda.so.1"
    command = ["clang", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname,libcuda.so.1", "-o", str(library)]
    subprocess.run(command, input=DRIVER.encode(), check=True)
    code = f"""
import ctypes
ctypes.CDLL({str(library)!r})
from eigentensor.errors import ExecutionError
from eigentensor.runtime.gpu import cuda
try:
    cuda.queue()
except ExecutionError as error:
    print(error)
"""
    assert "CUDA Error 100, a driver that the loader found" in said(code)
    assert cuda.dll.nm == "cuda"


def test_nvrtc_of_a_newer_release_is_found_and_what_lies_beside_it(tmp_path: Path) -> None:
    package = find_spec("nvidia.cuda_nvrtc")
    assert package is not None and package.submodule_search_locations
    (libraries,) = (Path(folder) / "lib" for folder in package.submodule_search_locations)
    newer = tmp_path / "nvidia" / "cu13" / "lib"
    newer.mkdir(parents=True)
    for file in libraries.glob("libnvrtc*.so.*"):
        name = file.name.replace(".so.12", ".so.13")
        (newer / name).symlink_to(file)
    code = """
from eigentensor.runtime.gpu import nvrtc
text = 'typedef int ix; extern "C" __global__ void compute(float *a) { a[0] = __fadd_rn(a[0], a[1]); }'
print(len(nvrtc.compiled("sm_90", text).code) > 0, nvrtc.nvrtc.dll._name)
"""
    assert said(code, PYTHONPATH=str(tmp_path), NVRTC_PATH="").strip() == f"True {newer / 'libnvrtc.so.13'}"
