"""The CPU device's text on ARM and RISC-V, emulated by qemu: the reference's bits, whatever the mode of the process.

It needs qemu's user mode, on Debian `apt-get install qemu-user`; for the numbers of system calls the kernel's headers.
"""

import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tinygrad.runtime.support.elf import jit_loader

from differential.test_quads import PAIRS, dots
from eigentensor import hashing
from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.program.signatures import STORED
from eigentensor.runtime.build.names import body_name
from eigentensor.runtime.cpu.choice import candidates
from eigentensor.runtime.cpu.linking import linked
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import Toolchain, compiling_for
from eigentensor.runtime.sandbox import confine
from support.conformance.answers import committed, wrong
from support.conformance.cases import cases
from support.generated.programs import Example
from support.oracles.agreement import Calls, calls_of, differences, exposed
from support.oracles.emulated import ARM, RISCV, VECTORS, Emulated, Machine
from support.programs import corners, halves, models, tiles, zeros
from support.programs.tiles import tensors

SELFTESTS = [f"selftest {dtype.name.lower()}" for dtype in sorted(STORED)]
#: What a device compiles for, and one value at a time.
WIDTHS = pytest.mark.parametrize(
    "lanes", [pytest.param(0, id="its lanes"), pytest.param(1, id="1 lane", marks=pytest.mark.slow)]
)


ON_ARM = pytest.mark.parametrize("at", [ARM], ids=[ARM.name], indirect=True)


@pytest.fixture(scope="module", params=[ARM, RISCV], ids=lambda machine: machine.name)
def at(request: pytest.FixtureRequest) -> Iterator[Emulated]:
    """A process on each machine."""
    yield from started(request.param)


def started(machine: Machine) -> Iterator[Emulated]:
    if machine.missing:
        pytest.skip(f"not installed: {machine.missing}")
    with Emulated(machine) as process:
        yield process


def differing(at: Emulated, names: Iterable[str], build: Toolchain | None = None, mode: int = 0) -> dict[str, str]:
    """Cases that do not give the answers which the reference has given, and what is wrong."""
    made = {name: cases()[name]() for name in names}
    way = at.way([of for trial in made.values() for of in (trial.program, exposed(trial.program))], build, mode)
    return {name: w.what for name, trial in made.items() if (w := wrong(trial, committed()[name], way))}


def in_parts(at: Emulated, names: Sequence[str], build: Toolchain | None = None, part: int = 1) -> dict[str, str]:
    """The same, so many compiled together: a compiler has two minutes, of which it takes a tenth to start."""
    found = (differing(at, names[first : first + part], build) for first in range(0, len(names), part))
    return {name: what for each in found for name, what in each.items()}


# Operations


@WIDTHS
def test_every_operation_on_every_type(at: Emulated, lanes: int) -> None:
    assert differing(at, SELFTESTS, at.machine.compiler(lanes)) == {}


def test_the_mode_of_a_process_has_no_influence(at: Emulated) -> None:
    """It rounds towards zero and, on ARM, has no subnormal numbers and one NaN; and it has that again afterwards."""
    assert differing(at, SELFTESTS, mode=at.machine.mode) == {}


CORNERS: dict[str, Callable[[], Example]] = {
    "NaN of any pattern": corners.nans,
    "subnormal numbers": corners.subnormals,
    "conversions saturate": corners.saturation,
    "products and sums are fused where they are to be": corners.fused,
    "every pattern of the half types": lambda: Example(*halves.halves(), {}, 1),
    "a zero that is chosen keeps its sign": partial(zeros.example, DType.FLOAT32, 6, 12),
}


@cache
def corner(name: str) -> tuple[Example, Calls]:
    """A program, and what the reference computes in each call."""
    made = CORNERS[name]()
    return made, calls_of(made)


@pytest.mark.parametrize("name", CORNERS)
@WIDTHS
def test_where_processors_differ(at: Emulated, name: str, lanes: int) -> None:
    example, calls = corner(name)
    programs = [example.program, exposed(example.program)]
    way = at.way(programs, at.machine.compiler(lanes), at.machine.mode)
    assert differences(example, way, calls) == []


def test_what_is_fused_is_not_what_is_rounded_twice() -> None:
    """Else nothing would show that a compiler takes one for the other."""
    example, calls = corner("products and sums are fused where they are to be")
    results = {name: calls[r.buffer - len(example.program.buffers)] for name, r in example.program.outputs.items()}
    for one, two in (("fused", "rounded"), ("fused_sums", "rounded_sums")):
        assert (results[one] != results[two]).mean() > 0.5


#: Of code: sums of four products of bytes, with a sign and without one, or one of each.
SDOT, USDOT = 0x4E809400, 0x4E809C00


@ON_ARM
@pytest.mark.parametrize(("features", "instruction"), [("dotprod", SDOT), ("dotprod+i8mm", USDOT)])
def test_sums_of_four_products_are_instructions_of_newer_processors(
    at: Emulated, features: str, instruction: int
) -> None:
    machine = replace(ARM, flags=(f"-march=armv8.2-a+{features}",))
    build, programs = machine.compiler(), [dots(*pair) for pair in PAIRS]
    code = build.compile(build.source(programs[1].bodies[0]))
    words = memoryview(code[: len(code) // 4 * 4]).cast("I")
    assert any(word & 0xFFE0FC00 == instruction for word in words)
    way = at.way(programs, build)
    for program in programs:
        arrays = tensors(program)
        for array in arrays.values():
            array[::3], array[1::3] = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
        example = Example(program, arrays, {}, 1)
        assert differences(example, way, calls_of(example)) == []


# Programs


def test_tiles_and_generated_programs(at: Emulated) -> None:
    first = 0 if at.machine is ARM else 4
    names = [f"tile {name}" for name in tiles.CASES if not name.startswith(tiles.LONG)]
    names += [f"generated {number}" for number in range(first, first + 4)]
    assert differing(at, names) == {}


@cache
def small(name: str) -> tuple[Example, Calls]:
    example = models.example(models.SMALLEST[name]())
    return example, calls_of(example)


@pytest.mark.parametrize("name", models.SMALLEST)
def test_small_models(at: Emulated, name: str) -> None:
    example, calls = small(name)
    assert differences(example, at.way([example.program, exposed(example.program)]), calls) == []


# At full width


#: Generated programs, those of one test, and small programs that are compiled together.
GENERATED, NUMBERS, TOGETHER = 200, 100, 8


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("name", models.MODELS)
def test_models(at: Emulated, name: str) -> None:
    """A product of two numbers takes a tenth of a microsecond there. Where results lie is the same on every machine:
    that is looked at for smaller programs."""
    made = cases()[f"model {name}"]()
    way = at.way([exposed(made.program)])
    assert wrong(made, committed()[f"model {name}"], way, plain_sets=0) is None


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize(
    ("kind", "part"), [("tile", 1), ("zeros", 1), ("halves", 1), ("graph", 1), ("method", TOGETHER)]
)
def test_all_that_a_device_is_held_to(at: Emulated, kind: str, part: int) -> None:
    assert in_parts(at, [name for name in cases() if name.startswith(kind)], part=part) == {}


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("first", range(0, GENERATED, NUMBERS))
def test_generated_programs(at: Emulated, first: int) -> None:
    assert in_parts(at, [f"generated {first + number}" for number in range(NUMBERS)], part=TOGETHER) == {}


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("lanes", [8, 16])
def test_vectors_wider_than_a_register(at: Emulated, lanes: int) -> None:
    names = [*SELFTESTS, "halves", *(f"tile {name}" for name in tiles.CASES)]
    assert in_parts(at, names, at.machine.compiler(lanes)) == {}


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("first", range(100, 160, 20))
def test_schedules_drawn_at_random(at: Emulated, first: int) -> None:
    names = [f"generated {number}" for number in range(first, first + 20)]
    programs = [cases()[name]().program for name in names]
    assert in_parts(at, names, any_schedules(at.machine, programs)) == {}


def any_schedules(machine: Machine, programs: Iterable[Program]) -> Toolchain:
    """Compiles every body with a schedule drawn from all that are possible."""
    random, schedules = Random(0), dict[str, str]()
    for body in {body: None for program in programs for body in program.bodies}:
        target = Target(random.choice((1, 4, 8, 16)), random.choice((8, 32)))
        schedules[body_name(body)] = str(random.choice(candidates(body, target)))
    return replace(machine.compiler(), schedules=schedules)


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_vectors_of_riscv() -> None:
    """Which the device does not use. qemu 7 ends with a signal at conversions of vectors to 16 bits."""
    integers = [f"selftest {dtype.name.lower()}" for dtype in sorted(STORED) if not dtype.is_float]
    for process in started(VECTORS):
        assert in_parts(process, [*integers, "halves", *(f"tile {name}" for name in tiles.CASES)]) == {}


# Hashing

#: What calls hashing.c, first, since there is no library: variables are the way, tag, size and number of messages.
CALLING = """
#include <stddef.h>
#include <stdint.h>
int supports(int);
void hash(int, int, size_t, const uint8_t *, size_t, uint8_t *);
int64_t kernel(void *const *buffers, const int64_t *v, int64_t first, int64_t last) {
  if (last < 0) return 1;
  hash(v[0], v[1], v[2], buffers[1], v[3], buffers[0]);
  ((uint8_t *)buffers[0])[32 * v[3]] = supports(2);
  return last;
}
unsigned long getauxval(unsigned long what) { return what == 16 ? HWCAP : 0; }
void *memset(void *p, int c, size_t n) { for (uint8_t *q = p; n--; ) *(volatile uint8_t *)q++ = c; return p; }
"""
WAYS = [hashing.Kind.PORTABLE, hashing.Kind.SHA]


@ON_ARM
@pytest.mark.parametrize("kind", WAYS, ids=lambda kind: kind.name.lower())
def test_hashes_on_arm(at: Emulated, kind: hashing.Kind) -> None:
    build = ARM.compiler()
    target = next(word for word in build.command if word.startswith("--target="))
    flags = ("-c", "-x", "c", "-ffreestanding", target, *hashing.FLAGS, *hashing.OF_MACHINE["aarch64"])
    command = (build.command[0], *flags, f"-DHWCAP={'1ul << 6' if kind is hashing.Kind.SHA else 0}", "-", "-o", "-")
    code = replace(build, command=command).compile(CALLING + hashing.SOURCE.read_text())
    for tag, size, count in ((0, 1024, 1), (0, 1024, 7), (1, 64, 33), (255, 128, 4)):
        data = Random(count).randbytes(count * size)
        hashes = at.kernel(code, 32 * count + 1, data, (kind, tag, size, count))
        assert hashes[:-1] == hashing.by_hashlib(tag, size, data)
        assert hashes[-1] == (kind is hashing.Kind.SHA)


# Code as it lies in memory, and what it may ask of the system


@pytest.mark.parametrize("machine", [ARM, RISCV], ids=lambda machine: machine.name)
def test_code_that_calls_a_library_is_refused(machine: Machine) -> None:
    code = machine.compiler().compile("int other(int); int kernel(int a) { return other(a) + 1; }")
    with pytest.raises(ExecutionError, match="'other' of a library"):
        linked(code)


#: A table, constants that are loaded as vectors and as numbers, and a function of its own.
FAR_APART = """
typedef float four __attribute__((vector_size(16)));
static const double TABLE[64] = {1, 2, 3, 5, 8, 13};
static const short HALVES[8] = {1, 2, 3}; static const int WORDS[8] = {4, 5};
__attribute__((noinline)) static double other(int i, double x) { return TABLE[i & 63] * x + 0.1; }
double kernel(four *p, int i) {
  *p += (four){0.1f, 0.2f, 0.3f, 0.4f};
  return other(i, (*p)[1]) + HALVES[i & 7] + WORDS[3 & -i] + 0.7f * i;
}
"""


@pytest.mark.parametrize(("machine", "processor"), [("x86_64", "x86-64"), ("arm64", "generic")])
def test_objects_lie_in_memory_as_tinygrad_puts_them(machine: str, processor: str) -> None:
    code = compiling_for(machine, processor).compile(FAR_APART)
    assert linked(code) == jit_loader(code)
    with pytest.raises(ExecutionError, match="damaged"):
        linked(code[:-100])
    with pytest.raises(ExecutionError, match="not ELF"):
        linked(b"!<arch>" + code)


def test_a_processor_that_nobody_knows_is_named() -> None:
    with pytest.raises(ExecutionError, match="s390x"):
        compiling_for("s390x", "native")


#: Calls of x86 and those that stand for them elsewhere.
NEWER = {
    "access": "faccessat", "open": "openat", "stat": "newfstatat", "lstat": "newfstatat", "readlink": "readlinkat"
}  # fmt: skip


def test_a_sealed_process_may_do_the_same_on_every_machine() -> None:
    for machine, (_, calls) in confine.CALLS.items():
        allowed = {NEWER.get(name, name) for name in calls}
        assert allowed - {"riscv_flush_icache"} == {*confine.GENERIC}, machine


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
