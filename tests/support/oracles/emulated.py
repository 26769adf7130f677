"""Processors of other machines: the CPU device's text compiled for them, loaded as a device does, run under qemu."""

import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.model import Body, Kind, Program
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.device import DESK, STEP
from eigentensor.runtime.cpu.linking import linked
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import Toolchain
from eigentensor.runtime.memory.plan import memories, next_turn, parts, plan
from support.oracles.agreement import Run, Way
from support.oracles.together import Together

#: Memory of the process: code, and what it needs, then tensors.
BASE, SIZE, TENSORS = 1 << 36, 6 << 30, 1 << 30
ENTRY = 1 << 22  #: where the process's own code lies
LINE, PAGE = 64, 1 << 12
SOURCE = Path(__file__).with_suffix(".c")
#: Addresses, and what is written there.
Pieces = Sequence[tuple[int, bytes]]


@dataclass(frozen=True)
class Machine:
    """A processor: tinygrad's name of its family, clang's of it, the command that emulates it, more flags of clang.

    `mode` is what a process may have told it about floats, of the bits `modes`: to round towards zero and, where it can
    be told that, to take subnormal numbers for zero and to lose which NaN it is.
    """

    name: str
    family: str
    processor: str
    emulator: tuple[str, ...]
    modes: int
    mode: int
    flags: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The command that is not installed, or nothing."""
        return "" if shutil.which(self.emulator[0]) else self.emulator[0]

    def compiler(self, lanes: int = 0) -> Toolchain:
        """The CPU device's for this processor, with the lanes that it has there, or with so many."""
        made = toolchain.compiling_for(self.family, self.processor)
        target = Target(lanes, made.target.registers) if lanes else made.target
        command = (*made.command[:-3], *self.flags, *made.command[-3:])
        return replace(made, target=target, command=command, schedules={})


ARM = Machine("aarch64", "arm64", "generic", ("qemu-aarch64",), modes=-1, mode=1 << 25 | 1 << 24 | 3 << 22 | 1 << 19)
RISCV = Machine("riscv64", "riscv64", "native", ("qemu-riscv64",), modes=7 << 5, mode=1 << 5)
#: With vectors, which the device does not use.
VECTORS = replace(
    RISCV,
    name="riscv64 with vectors",
    processor="rv64gcv",
    emulator=("qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0,vlen=128"),
    flags=("-mllvm", "-riscv-v-vector-bits-min=128"),
)


class Emulated:
    """A process on a machine, which computes in its own memory. A context: the process ends with it."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.compiled = machine, Together()
        self.end, self.codes, self.new = BASE, dict[bytes, int](), list[tuple[int, bytes]]()
        build = machine.compiler()
        numbers = {"BASE": BASE, "SIZE": SIZE, "MODE": machine.modes}
        defined = "".join(f"#define {name} {value}l\n" for name, value in numbers.items())
        with TemporaryDirectory() as folder:
            file = Path(folder, "process")
            file.write_bytes(_executable(build.compile(defined + SOURCE.read_text())))
            file.chmod(0o700)
            self.process = subprocess.Popen(
                [*machine.emulator, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            self.desk = self._place(bytes(8 * DESK))
            self.drive = self.load(build.compile(build.driver))
            self.call([], (self.desk, 0, 0), [(self.desk, 8)])  # it has begun: the file may go

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def way(self, programs: Iterable[Program] = (), build: Toolchain | None = None, mode: int = 0) -> Way:
        """Executes programs there, in a process that has set a mode; these are compiled sooner, together. Without a
        compiler it is the machine's."""
        build = build or self.machine.compiler()

        def compile_all(programs: Iterable[Program]) -> None:
            bodies = {body for program in programs for body in (*program.bodies, *parts(program))}
            self.compiled.fill([body for body in bodies if build.key(body) not in self.compiled.codes], build)

        def code_of(body: Body) -> int | None:
            return self.load(self.compiled.codes[build.key(body)]) if body.parameters[0].elements else None

        def made(program: Program) -> Run:
            compile_all([program])
            return _Loaded(program, self, code_of, mode).run

        compile_all(programs)
        return made

    def kernel(self, code: bytes, size: int, data: bytes, variables: Sequence[int]) -> bytes:
        """What one kernel writes, of this size, that reads this and is given these values."""
        pointers, values = self._place(bytes(16)), self._place(struct.pack(f"<{len(variables)}q", *variables))
        result, read = self._place(bytes(size)), self._place(data)
        self.new.append((pointers, struct.pack("<2q", result, read)))
        step = np.zeros(1, STEP)
        step["kernel"], step["buffers"], step["variables"] = self.load(code), pointers, values
        return self.call([], (self._place(step.tobytes()), 1, 0), [(result, size)])[0]

    def load(self, code: bytes) -> int:
        """Where object code lies from the next call on, once; at the beginning of a page, as in a device."""
        if code not in self.codes:
            self.end += -self.end % PAGE
            self.codes[code] = self._place(linked(code))
        return self.codes[code]

    def call(self, written: Pieces, table: tuple[int, int, int], read: Sequence[tuple[int, int]]) -> list[bytes]:
        """Writes pieces of memory; runs a table, given as address, number of steps and mode; reads addresses, so many
        bytes each. Raises AssertionError if the process ends at that."""
        assert self.process.stdin
        assert self.process.stdout
        pieces, self.new = [*self.new, *written], []
        try:
            self.process.stdin.write(struct.pack("<7q", len(pieces), self.drive, self.desk, *table, len(read)))
            for address, data in pieces:
                self.process.stdin.write(struct.pack("<2q", address, len(data)))
                self.process.stdin.write(data)
            contents = []
            for address, size in read:
                self.process.stdin.write(struct.pack("<2q", address, size))
                self.process.stdin.flush()
                contents.append(self.process.stdout.read(size))
        except BrokenPipeError:
            contents = [b""]
        if [len(data) for data in contents] != [size for _, size in read]:
            raise AssertionError(f"the process ended with {self.process.wait()}: {contents[-1]!r}")
        return contents

    def _place(self, data: bytes) -> int:
        address, self.end = self.end, self.end + _whole(len(data))
        assert self.end <= BASE + TENSORS
        self.new.append((address, data))
        return address


class _Loaded:
    """A program with its memory, as `runtime.cpu.table` lays it out."""

    def __init__(self, program: Program, process: Emulated, code_of: Callable[[Body], int | None], mode: int) -> None:
        self.program, self.process, self.code_of, self.mode = program, process, code_of, mode
        self.plan = plan(program, over=True)
        self.end = BASE + TENSORS
        self.arena = self._take(self.plan.size)
        first, count = len(program.buffers), len(program.buffers) + len(program.calls)
        second = {count + r: r for r in self.plan.swapped}  # memories, as `memories` numbers them
        own = {b: b for b in (*range(first), *(r.buffer for r in program.results))} | second
        self.places = {number: self._take(self._bytes(buffer)) for number, buffer in own.items()}
        self.places |= {
            first + j: self.arena + offset for j, offset in enumerate(self.plan.offsets) if self.plan.own[j] is None
        }

    def run(self, tensors: Mapping[str, Any], variables: Mapping[str, int], repeat: int = 1) -> Results:
        """As CompiledGraph's."""
        arrays = bind(self.program, tensors, variables, repeat)
        written = [(self.places[number], array.tobytes()) for number, array in enumerate(arrays)]
        results, turn, contents = self.program.results, 0, list[bytes]()
        for iteration in range(repeat):
            where = memories(self.program, self.plan, turn)
            pieces, count = self._table(where, turn, iteration_values(self.program, variables, iteration))
            last = iteration == repeat - 1
            read = [(self.places[where[r.buffer]], self._bytes(r.buffer)) for r in results] if last else []
            contents = self.process.call([*written, *pieces], (self.end, count, self.mode), read)
            written, turn = [], next_turn(self.plan, turn)
        named: dict[Kind, dict[str, Any]] = {Kind.OUTPUT: {}, Kind.STATE: {}}
        for r, data in zip(results, contents, strict=True):
            named[r.kind][r.name] = np.frombuffer(data, STORAGE[self.program.parameter(r.buffer).dtype]).reshape(
                r.shape
            )
        return Results(named[Kind.OUTPUT], named[Kind.STATE])

    def _table(self, where: list[int], turn: int, values: tuple[int, ...]) -> tuple[Pieces, int]:
        """What is written behind the tensors: steps, the pointers and the variables to which they point."""
        calls = []
        for j, call in enumerate(self.program.calls):
            if (kernel := self.code_of(self.plan.body(self.program, j, turn))) is not None:
                calls.append((kernel, [len(self.program.buffers) + j, *call.arguments], call.variables))
        steps = np.zeros(len(calls), STEP)
        words = list[int]()
        for step, (kernel, buffers, of) in zip(steps, calls, strict=True):
            step["kernel"], step["buffers"] = kernel, self.end + steps.nbytes + 8 * len(words)
            words += [self.places[where[b]] for b in buffers]
            step["variables"] = self.end + steps.nbytes + 8 * len(words)
            words += [values[v] for v in of]
        return [(self.end, steps.tobytes() + np.array(words, np.int64).tobytes())], len(calls)

    def _bytes(self, buffer: int) -> int:
        dtype, elements = self.program.parameter(buffer)
        return dtype.size * elements

    def _take(self, size: int) -> int:
        address, self.end = self.end, self.end + _whole(size)
        assert self.end < BASE + SIZE
        return address


def _whole(size: int) -> int:
    return -(-size // LINE) * LINE


def _executable(code: bytes) -> bytes:
    """An object as a file that starts at its first byte: one segment, which may be written and executed."""
    image, size = linked(code), 64 + 56
    head = struct.pack("<16sHH", code[:16], 2, struct.unpack_from("<H", code, 18)[0])
    head += struct.pack("<IQQQ", 1, ENTRY, 64, 0) + code[48:52] + struct.pack("<6H", 64, 56, 1, 0, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 7, PAGE, ENTRY, ENTRY, len(image), len(image), PAGE)
    return head + bytes(PAGE - size) + image
