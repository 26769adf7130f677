"""The self-test passes where programs may be served, and fails where one rule of the arithmetic is broken."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.program.binding import Results
from eigentensor.program.model import Body, Program
from eigentensor.program.ops import COMPARISONS, DType
from eigentensor.program.signatures import UNIFORM
from eigentensor.runtime import CompiledGraph, execute, selftest
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.device import Code
from eigentensor.runtime.cpu.toolchain import Toolchain

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="sets a control register of x86")


def test_this_machine_passes() -> None:
    selftest.check()


def test_every_operation_on_every_type_is_tried() -> None:
    program, _ = selftest.conformance()
    tried = {(i.op, i.dtype) for body in program.bodies for i in body.instructions}
    wanted = {
        (op, DType.BOOL if op in COMPARISONS else dtype)
        for op, dtypes in UNIFORM.items()
        for dtype in dtypes - {DType.INDEX}
    }
    assert wanted <= tried


@pytest.mark.parametrize(
    ("flag", "seen"),
    [
        ("-ffp-contract=fast", "float32_product_and_sum"),
        ("-fassociative-math -fno-signed-zeros -fno-trapping-math", "float32_reductions|float32_products"),
    ],
)
def test_a_compiler_that_contracts_or_reorders_fails(flag: str, seen: str, tmp_path: Path) -> None:
    here = toolchain.local()
    command = (*here.command[:-3], *flag.split(), *here.command[-3:])
    other = replace(here, identity=f"{here.identity} {flag}", command=command)

    def run(program: Program, tensors: selftest.Tensors) -> Results:
        return CompiledGraph(program, cache=Cache(tmp_path), toolchain=other).run(tensors)

    with pytest.raises(ExecutionError, match=seen):
        selftest.check(run, [DType.FLOAT32])


@pytest.mark.parametrize("part", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(5)])
def test_no_code_depends_on_whether_a_plain_char_has_a_sign(part: int) -> None:
    """It has one on x86, and none on ARM and RISC-V; with other code, one of them would compute something else."""
    read = "-S -emit-llvm -Xclang -disable-llvm-passes"
    signed, unsigned = (plain_chars(f"{read} {flag}") for flag in ("-fsigned-char", "-funsigned-char"))
    for body in selftest.conformance()[0].bodies[part::5]:
        text = signed.source(body)
        assert signed.compile(text) == unsigned.compile(text)


def test_a_bool_whose_bits_are_not_all_alike_fails(tmp_path: Path) -> None:
    """As it was on ARM: 255, which is stored as true and chooses like false."""

    class Careless(Toolchain):
        def source(self, body: Body) -> str:
            text = super().source(body)
            assert "CONVERT((M##v)(a " in text
            return text.replace("CONVERT((M##v)(a ", "CONVERT((a ")

    unsigned = plain_chars("-funsigned-char")
    careless = Careless(f"{unsigned.identity} careless", unsigned.target, unsigned.command)

    def run(program: Program, tensors: selftest.Tensors) -> Results:
        return CompiledGraph(program, cache=Cache(tmp_path), toolchain=careless).run(tensors)

    dtypes = [DType.BOOL, DType.INT16, DType.FLOAT32]
    seen = ", ".join(sorted(f"{dtype.name.lower()}_choices" for dtype in dtypes))
    with pytest.raises(ExecutionError, match=f"as specified: {seen}\n"):
        selftest.check(run, dtypes)


def plain_chars(flags: str) -> Toolchain:
    here = toolchain.local()
    command = (*here.command[:-3], *flags.split(), *here.command[-3:])
    return replace(here, identity=f"{here.identity} {flags}", command=command)


def test_a_device_that_flushes_subnormals_fails() -> None:
    def run(program: Program, tensors: selftest.Tensors) -> Results:
        results = execute(program, tensors)
        tiny = np.finfo(np.float32).tiny
        flushed = {
            name: np.where(np.abs(a) < tiny, np.float32(0), a) if a.dtype == np.float32 else a
            for name, a in results.outputs.items()
        }
        return Results(flushed, {})

    with pytest.raises(ExecutionError, match="float32_arithmetic"):
        selftest.check(run)


@X86
def test_what_the_process_does_with_subnormals_has_no_influence() -> None:
    program, tensors = selftest.conformance()
    compiled = CompiledGraph(program)
    expected = compiled.run(tensors).outputs
    with flush_to_zero():
        outputs = compiled.run(tensors).outputs
    assert all(expected[name].tobytes() == outputs[name].tobytes() for name in expected)


@contextmanager
def flush_to_zero() -> Iterator[None]:
    """The state that a library built for speed leaves behind: results and operands that are subnormal count as zero."""
    text = "unsigned kernel(unsigned s) { unsigned b = __builtin_ia32_stmxcsr(); __builtin_ia32_ldmxcsr(s); return b; }"
    code = Code(toolchain.local().compile(text))
    change = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_uint)(code.address)
    before = change(0x9FC0)
    try:
        assert np.float32(1e-38) * np.float32(0.1) == 0
        yield
    finally:
        change(before)
