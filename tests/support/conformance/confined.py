"""Executes programs on a device in the sandbox, step by step, and attacks it: `scripts/gpu confined [--device CL]`.

Each step says whether it went well, how long it took and what it found. One that fails is tried again with all system
calls let through, and what the sandbox would have refused, or the driver looked for and did not find, is listed: the
lists of `runtime/sandbox/confine.py` and `runtime/gpu/nodes.py` can be mended from that alone.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exc
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError, LimitError
from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.runtime import devices, selftest
from eigentensor.runtime.gpu.gridded import Gridded
from eigentensor.runtime.sandbox import bubblewrap, first
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.execution import compile_sandboxed, run_sandboxed
from eigentensor.runtime.sandbox.ready import Given
from eigentensor.runtime.sandbox.tenant import Tenant
from eigentensor.runtime.sandbox.warm import WarmProgram
from support.campaigns.campaign import Line, say
from support.conformance.refusals import lines, watched
from support.generated.programs import generate
from support.hostile.driven import attacked, attacks_on, left_over, surprising
from support.oracles.agreement import Run, differences
from support.programs.long_program import endless

LIMITS = Limits(memory=4 << 30, seconds=180)
LEFT = 64 << 20  #: bytes of a marked buffer
CALLS = 200  #: of a program that stays warm


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu confined", description=__doc__)
    parser.add_argument("--device", default="CUDA", help="by tinygrad's name [CUDA]")
    parser.add_argument("--programs", type=int, default=24, help="generated programs [24]")
    parser.add_argument("--processes", type=int, default=min(8, len(os.sched_getaffinity(0))))
    parser.add_argument("--out", type=Path, default=Path("confined.json"), help="what was found [confined.json]")
    parser.add_argument("--only", nargs="*", default=[""], help="steps whose names begin so")
    arguments = parser.parse_args()
    steps = Steps(arguments.device, arguments.programs, arguments.processes)
    tried = [
        line
        for name, step in steps.all().items()
        if name.startswith(tuple(arguments.only))
        for line in [_tried(name, step)]
    ]
    arguments.out.write_text(json.dumps(tried, indent=1) + "\n")
    failed = [line["step"] for line in tried if "failed" in line]
    say(f"{len(tried) - len(failed)} of {len(tried)} steps went well" + f"; failed: {', '.join(failed)}" * bool(failed))
    return int(bool(failed))


def _tried(name: str, step: Callable[[], Any]) -> Line:
    begun, line = time.monotonic(), Line(step=name)
    try:
        line["found"] = step()
    except Exception as error:
        line["failed"] = f"{type(error).__name__}: {error}"[-3000:]
        if not isinstance(error, ExecutionError | AssertionError):
            line["failed"] = format_exc(limit=-4)[-3000:]
    line["seconds"] = round(time.monotonic() - begun, 2)
    if "failed" in line:
        say(f"FAILED  {name}  {line['seconds']} s\n{line['failed']}")
        line["refused"] = _refused(step)
        say("\n".join(f"    {text}" for text in line["refused"][:200]))
    else:
        say(f"ok      {name}  {line['seconds']} s  {line['found']}")
    return line


def _refused(step: Callable[[], Any]) -> list[str]:
    """What the sandbox refuses of a step that is tried again without refusals, and how it ends then."""
    with TemporaryDirectory() as folder, watched(Path(folder)):
        try:
            how = f"with everything let through it gives {step()}"
        except Exception as error:
            how = f"with everything let through it fails, too: {type(error).__name__}: {error}"[-2000:]
        return [how, *lines(Path(folder))]


class Steps:
    """What is tried on a device, in this order."""

    def __init__(self, device: str, programs: int, processes: int) -> None:
        self.device, self.programs, self.processes = device, programs, processes

    def all(self) -> Mapping[str, Callable[[], Any]]:
        """Each step by its name."""
        return {
            "device": self.opened, "bubblewrap": self.bubblewrap, "inside": self.inside, "driver": self.driver,
            "compiler": self.compiler, "run": self.run, "selftest": self.selftest, "programs": self.generated,
            "warm": self.warm, "tenant": self.tenant, "attacks": self.attacks, "given back": self.given_back,
            "killed": self.killed, "hang": self.hang,
        }  # fmt: skip

    @property
    def build(self) -> Gridded:
        """The device's compiler and reach."""
        made = devices.of(self.device)
        assert isinstance(made, Gridded)
        return made

    def opened(self) -> Any:
        """What the device is, and what of the system it is to be driven by."""
        here = self.build
        return {
            "identity": here.identity, "command": here.command, "nodes": list(map(str, here.reach.nodes)),
            "files": list(map(str, here.reach.files)), "environment": dict(here.reach.environment),
            "compiling": [list(map(str, here.compiling.files)), dict(here.compiling.environment)],
        }  # fmt: skip

    def bubblewrap(self) -> str:
        """That anything is confined."""
        bubblewrap.available()
        path = shutil.which("bwrap")
        return (
            subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True).stdout.strip()
            + f", {path}"
        )

    def inside(self) -> str:
        """What the process sees that drives the device."""
        reach = self.build.reach
        nodes = " ".join(map(str, reach.nodes))
        shown = f"ls -l {nodes} /dev /proc/driver/nvidia 2>&1; id; head -3 /proc/driver/nvidia/params 2>&1"
        ended = bubblewrap.run(bubblewrap.confined([], {}, reach), 30, ["/bin/sh", "-c", shown])
        assert ended.code is not None and not ended.errors.startswith("bwrap:"), ended.errors
        return ended.output.decode()

    def driver(self) -> str:
        """That the driver starts there, before anything is refused."""
        module = {"CL": "opencl", "CUDA": "cuda"}[self.device]
        code = f"from eigentensor.runtime.gpu.{module} import queue; queue().allocate(64); print('opened')"
        ended = bubblewrap.run(bubblewrap.confined([], {}, self.build.reach), 60, [sys.executable, "-c", code])
        assert ended.output == b"opened\n", f"{ended.code}: {ended.errors[-3000:]}"
        return "opened"

    def compiler(self) -> str:
        """That a compiler which sees no device makes what this process would."""
        here, body = self.build, first.program().bodies[0]
        with TemporaryDirectory() as folder:
            cache = Cache(Path(folder))
            begun = time.monotonic()
            compile_sandboxed(first.program(), 120, device=self.device, cache=cache)
            took = time.monotonic() - begun
            code = cache.get(here.key(body))
        assert code is not None
        if self.device == "CUDA":  # others write times or places into their code
            assert code == here.compile(here.source(body)), "other code than is made here"
        return f"{len(code)} bytes in {took:.2f} s"

    def run(self) -> str:
        """A program by itself."""
        x = np.arange(first.ELEMENTS, dtype=np.float32)
        begun = time.monotonic()
        results = run_sandboxed(encode(first.program()), {"x": x}, limits=LIMITS, device=self.device)
        assert np.array_equal(results.outputs["y"], 2 * x), results
        return f"{time.monotonic() - begun:.2f} s with everything compiled"

    def selftest(self) -> str:
        """What an operator holds its device to before it accepts anything."""
        selftest.check(
            lambda program, tensors: run_sandboxed(encode(program), tensors, limits=LIMITS, device=self.device)
        )
        return "every bit is the reference's"

    def generated(self) -> str:
        """Generated programs against the reference."""

        def way(program: Program) -> Run:
            def run(tensors: Mapping[str, Any], variables: Mapping[str, int], repeat: int) -> Results:
                return run_sandboxed(encode(program), tensors, variables, repeat, LIMITS, device=self.device)

            return run

        with ThreadPoolExecutor(self.processes) as pool:
            found = list(pool.map(lambda seed: differences(generate(seed), way), range(self.programs)))
        wrong = [f"{seed}: {differing[0]}" for seed, differing in enumerate(found) if differing]
        assert not wrong, "\n".join(wrong)
        return f"{self.programs} agree"

    def warm(self) -> str:
        """A program that stays."""
        x = np.arange(first.ELEMENTS, dtype=np.float32)
        with WarmProgram(first.program(), (), LIMITS, device=self.device) as program:
            program.warm()
            begun = time.monotonic()
            for n in range(CALLS):
                results = program.run({"x": x + np.float32(n)}).results
                assert np.array_equal(results.outputs["y"], 2 * (x + np.float32(n))), results
            took = (time.monotonic() - begun) / CALLS
            program.widen()
            many = program.run_all([Given({"x": x})] * 4, keep=[()] * 4)
            assert all(np.array_equal(one.results.outputs["y"], 2 * x) for one in many), many  # type: ignore[union-attr]
        return f"{took * 1e6:.0f} µs a call"

    def tenant(self) -> str:
        """Programs that come to a process which is sealed already."""
        of = Tenant(LIMITS, device=self.device)
        try:
            for seed in (0, 1):
                example = generate(seed)
                program = example.program
                if any(b.role.name == "WEIGHT" for b in program.buffers):
                    continue
                of.run(merkle.program_root(encode(program)), program, example.tensors, example.variables)
            x = np.arange(first.ELEMENTS, dtype=np.float32)
            results = of.run(b"first", first.program(), {"x": x})
            assert np.array_equal(results.outputs["y"], 2 * x), results
        finally:
            of.close()
        return "programs came to a sealed process"

    def attacks(self) -> str:
        """What code tries that has taken the process over."""
        reach = self.build.reach
        tried = attacks_on(reach)
        assert not (found := surprising(attacked(self.device, reach, tried), tried)), "\n".join(found)
        return f"{len(tried)} gave nothing"

    def given_back(self) -> str:
        """Memory that a process has given back, or ended with."""
        found = left_over(self.device, self.build.reach, LEFT, "given back")
        assert found == "0", found
        return "no byte of it is found by another process"

    def killed(self) -> str:
        """Memory of a killed process, which the driver alone can clear: what it does is said, and no failure."""
        found = left_over(self.device, self.build.reach, LEFT, "killed")
        return f"marked bytes that another process finds: {found}"

    def hang(self) -> str:
        """A program without end, and the next one."""
        compile_sandboxed(endless(), 120, device=self.device)
        begun = time.monotonic()
        try:
            run_sandboxed(encode(endless()), {}, limits=Limits(seconds=15), device=self.device)
        except LimitError:
            took = time.monotonic() - begun
        else:
            raise AssertionError("a program without end has ended")
        return f"ended after {took:.1f} s; the next one: {self.run()}"


if __name__ == "__main__":
    default_folder().mkdir(parents=True, exist_ok=True)
    sys.exit(main())
