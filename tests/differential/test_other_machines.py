"""The same C text for ARM and RISC-V, run under qemu: the reference's bits, whatever mode the process has for floats.

It needs qemu's user mode and cross compilers, on Debian `apt-get install qemu-user gcc-{aarch64,riscv64}-linux-gnu`.
"""

import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import bind, iteration_values
from eigentensor.program.model import Body, Program
from eigentensor.runtime import selftest
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import FLAGS, Toolchain
from eigentensor.runtime.sandbox import confine
from support.generated.programs import generate


@dataclass(frozen=True)
class Machine:
    """A family of processors: how clang is told of it, and C that sets a mode of which no kernel may see anything."""

    name: str
    flags: tuple[str, ...]
    target: Target
    mode: str

    @property
    def toolchain(self) -> Toolchain:
        target = f"--target={self.name}-none-unknown-elf"
        return Toolchain(self.name, self.target, ("clang", *FLAGS, target, *self.flags, "-", "-o", "-"))

    def run(
        self, program: Program, arrays: list[np.ndarray], values: tuple[int, ...], folder: Path
    ) -> dict[int, bytes]:
        """What each result of the program holds after one iteration, by number of buffer."""
        built = self._built(program, folder)
        data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        done = subprocess.run([f"qemu-{self.name}", built], input=data, capture_output=True, check=False)
        assert done.returncode == 0, done
        contents, at = {}, 0
        for result in program.results:
            parameter = program.parameter(result.buffer)
            size = parameter.elements * parameter.dtype.size
            contents[result.buffer] = done.stdout[at : at + size]
            at += size
        return contents

    def _built(self, program: Program, folder: Path) -> Path:
        made, used = self.toolchain, [program.bodies[call.body] for call in program.calls]
        bodies = list(dict.fromkeys(body for body in used if body.parameters[0].elements))

        def build(number: int, body: Body) -> Path:
            path = folder / f"kernel{number}.o"
            path.write_bytes(made.compile(made.source(body).replace("i64 kernel(", f"i64 kernel{number}(")))
            return path

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(build, range(len(bodies)), bodies))
        (folder / "driver.o").write_bytes(made.compile(made.driver))
        (folder / "main.c").write_text(main(program, bodies, self.mode))
        files = [folder / "main", folder / "main.c", folder / "driver.o", *objects]
        command: list[str | Path] = [f"{self.name}-linux-gnu-gcc", "-static", "-O1", "-o", *files]
        subprocess.run(command, check=True, capture_output=True)
        return folder / "main"


def main(program: Program, bodies: list[Body], mode: str) -> str:
    """C text: reads all buffers from standard input, drives the calls of one iteration, writes the results."""
    buffers = range(len(program.buffers) + len(program.calls))
    sizes = [program.parameter(b).elements * program.parameter(b).dtype.size for b in buffers]
    lines = [
        "#include <sched.h>", "#include <stdint.h>", "#include <stdio.h>", "typedef int64_t i64;",
        "struct step { void *kernel; void **buffers; i64 *variables; i64 units, grain, next, done; };",
        "void drive(i64 *desk, struct step *steps, i64 count, i64 helpers);", mode,
        *(f"i64 kernel{n}(void *const *, const i64 *, i64, i64);" for n in range(len(bodies))),
        *(f"static char b{n}[{size or 1}] __attribute__((aligned(64)));" for n, size in enumerate(sizes)),
        "static i64 variables[256], bound[65536], desk[16];", "static void *pointers[1 << 16];",
        "int main(void) {", "  struct step steps[4096] = {0}; i64 count = 0, p = 0, v = 0;",
        "  desk[0] = (i64)(uintptr_t)sched_yield;",
        f"  if (fread(variables, 8, {len(program.variables)}, stdin) != {len(program.variables)}) return 1;",
        *(f"  if (fread(b{n}, 1, {sizes[n]}, stdin) != {sizes[n]}) return 1;" for n in range(len(program.buffers))),
    ]  # fmt: skip
    for number, call in enumerate(program.calls):
        body = program.bodies[call.body]
        if body not in bodies:
            continue
        kernel = f"kernel{bodies.index(body)}"
        lines.append(f"  steps[count] = (struct step){{{kernel}, pointers + p, bound + v}};")
        lines.append(f"  steps[count].units = steps[count].grain = {kernel}(pointers, variables, 0, -1); count++;")
        lines += [f"  pointers[p++] = b{b};" for b in (len(program.buffers) + number, *call.arguments)]
        lines += [f"  bound[v++] = variables[{variable}];" for variable in call.variables]
    lines += ["  set_mode();", "  drive(desk, steps, count, 0);", "  if (!has_mode()) return 2;"]
    lines += [f"  fwrite(b{r.buffer}, 1, {sizes[r.buffer]}, stdout);" for r in program.results]
    return "\n".join([*lines, "  return 0;", "}", ""])


#: Rounding towards zero; on ARM subnormal numbers count as zero besides.
ARM = Machine(
    "aarch64",
    ("-ffixed-x18", "-mcpu=generic"),
    Target(4, 32),
    """
static void set_mode(void) { uint64_t mode = 1 << 24 | 3 << 22; __asm__ volatile("msr fpcr, %0" ::"r"(mode)); }
static int has_mode(void) { uint64_t m; __asm__ volatile("mrs %0, fpcr" : "=r"(m)); return m == (1 << 24 | 3 << 22); }
""",
)
RISCV = Machine(
    "riscv64",
    ("-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"),
    Target(4, 16),
    """
static void set_mode(void) { uint64_t mode = 1; __asm__ volatile("fsrm %0" ::"r"(mode)); }
static int has_mode(void) { uint64_t mode; __asm__ volatile("frrm %0" : "=r"(mode)); return mode == 1; }
""",
)
MACHINES = pytest.mark.parametrize("machine", [ARM, RISCV], ids=lambda machine: machine.name)


def differing(
    machine: Machine, program: Program, tensors: Mapping[str, Any], variables: Any, folder: Path
) -> list[str]:
    """The names of results with other bits than the reference's."""
    needed = ("clang", f"qemu-{machine.name}", f"{machine.name}-linux-gnu-gcc")
    if missing := [command for command in needed if shutil.which(command) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    values = iteration_values(program, variables, 0)
    arrays = [np.array(values, np.int64), *bind(program, tensors, variables, 1)]
    contents = machine.run(program, arrays, values, folder)
    expected = reference.execute(program, tensors, variables)
    named = {**expected.outputs, **expected.states}
    storage = {r.name: STORAGE[program.parameter(r.buffer).dtype] for r in program.results}
    return [
        r.name
        for r in program.results
        if contents[r.buffer] != np.ascontiguousarray(named[r.name]).astype(storage[r.name], copy=False).tobytes()
    ]


@MACHINES
def test_the_selftest_passes_whatever_the_mode_of_the_process(machine: Machine, tmp_path: Path) -> None:
    program, tensors = selftest.conformance([DType.BOOL, DType.INT8, DType.INT64, DType.FLOAT16, DType.FLOAT32])
    assert differing(machine, program, tensors, {}, tmp_path) == []


@pytest.mark.slow
@MACHINES
def test_the_whole_selftest_passes(machine: Machine, tmp_path: Path) -> None:
    assert differing(machine, *selftest.conformance(), {}, tmp_path) == []


@MACHINES
@pytest.mark.parametrize("seed", range(3))
def test_generated_programs_give_the_bits_of_the_reference(machine: Machine, seed: int, tmp_path: Path) -> None:
    example = generate(seed)
    assert differing(machine, example.program, example.tensors, example.variables, tmp_path) == []


@pytest.mark.slow
@MACHINES
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_more_programs(machine: Machine, seed: int, tmp_path: Path) -> None:
    test_generated_programs_give_the_bits_of_the_reference(machine, seed, tmp_path)


@pytest.mark.parametrize("machine", confine.CALLS)
def test_the_allowed_system_calls_have_the_numbers_of_the_kernels_headers(machine: str) -> None:
    """Every machine that can be sealed has numbers for the same abilities, and those that its headers say."""
    _, calls = confine.CALLS[machine]
    assert machine in confine.SECCOMP
    headers = Path(f"/usr/{machine}-linux-gnu/include")
    headers = headers if headers.exists() else Path(f"/usr/include/{machine}-linux-gnu")
    if not headers.exists():
        pytest.skip(f"no headers for {machine}: apt-get install libc6-dev-{machine}-cross")
    include = ["-nostdinc", "-isystem", str(headers), "-isystem", "/usr/include"]
    command = ["clang", f"--target={machine}-linux-gnu", *include, "-E", "-P", "-"]
    text = "#include <asm/unistd.h>\n#include <linux/audit.h>\n"
    text += "".join(f"\n{name} __NR_{name}" for name in (*calls, "seccomp"))
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    numbers = {name: number for name, _, number in (line.partition(" ") for line in done.stdout.decode().splitlines())}
    assert {name: int(eval(numbers[name])) for name in calls} == calls
    assert int(numbers["seccomp"]) == confine.SECCOMP[machine]
