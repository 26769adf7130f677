"""CUDA text becomes PTX in which every rounding is named, and products and sums meet only where the program says."""

import pytest

from differential.test_append import program as append_to
from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.program.ops import Op
from eigentensor.program.signatures import STORED
from eigentensor.runtime import selftest
from eigentensor.runtime.gpu import nvrtc
from eigentensor.runtime.gpu.gridded import Gridded, Queue
from eigentensor.runtime.memory.plan import parts
from support.campaigns.device_cases import AheadGrid, WidestGrid, other
from support.oracles.together import Together
from support.programs import zeros
from support.programs.captured import NAMES, graphs

#: Oldest and newest architecture that the compiler knows are tried in a long run.
HERE, OTHERS = "sm_80", ("sm_50", "sm_75", "sm_90", "sm_120")
FUSED = {Op.MULACC, Op.REDUCE_MULACC}


def no_device() -> Queue:
    raise AssertionError("only text is compiled")


def compiler(architecture: str = HERE) -> Gridded:
    return nvrtc.toolchain(architecture, 432, no_device)


def rounds_as_written(body: Body, kind: Gridded, architecture: str = HERE) -> None:
    """The compiler refuses PTX that is not exact; here it is read once more, by itself."""
    ptx = nvrtc.compiled(architecture, kind.source(body)).ptx
    assert not [
        word for word in (".ftz", ".approx", ".full", ".f64", ".f16", ".bf16", ".sat", "mad.f32") if word in ptx
    ]
    arithmetic = [line for line in ptx.splitlines() if ".f32" in line and any(op in line for op in ARITHMETIC)]
    assert all(".rn.f32" in line for line in arithmetic)
    assert ("fma.rn.f32" in ptx) == any(i.op in FUSED for i in body.instructions)


def test_parts_of_appends_become_exact_ptx() -> None:
    (part,) = parts(append_to("rows of each head"))
    rounds_as_written(part, compiler())


ARITHMETIC = ("add.", "sub.", "mul.", "div.", "fma.", "sqrt.", "rcp.")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "gelu mlp" else pytest.mark.slow) for n in NAMES])
def test_captured_graphs_become_exact_ptx(name: str) -> None:
    kind = compiler()
    program = graphs()[name].captured().program
    for body in (*program.bodies, *parts(program)):
        rounds_as_written(body, kind)
        if body.reduce_ranges:
            rounds_as_written(body, other(WidestGrid, kind))
            rounds_as_written(body, other(AheadGrid, kind))


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=[] if d is DType.FLOAT32 else pytest.mark.slow) for d in sorted(STORED)]
)
def test_every_operation_becomes_exact_ptx(dtype: DType) -> None:
    for body in selftest.conformance([dtype])[0].bodies:
        rounds_as_written(body, compiler())


@pytest.mark.slow
@pytest.mark.parametrize("architecture", OTHERS)
def test_other_architectures_become_exact_ptx(architecture: str) -> None:
    for body in selftest.conformance([DType.FLOAT32, DType.FLOAT16])[0].bodies:
        rounds_as_written(body, compiler(architecture), architecture)


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(d, marks=[] if d is DType.FLOAT32 else pytest.mark.slow) for d in (DType.FLOAT32, DType.FLOAT16)],
)
def test_no_choice_of_a_zero_becomes_a_minimum(dtype: DType) -> None:
    Together().fill(zeros.example(dtype, 0, 1000).program.bodies, compiler())


CONTRACTED = """typedef float f32; typedef int ix;
extern "C" __global__ void compute(f32 *p0, const f32 *p1) { p0[0] = EXPRESSION; }
"""


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("__fmaf_rn(p1[0], p1[1], p1[2])", "contracted"),
        ("__fadd_rz(p1[0], p1[1])", "add.rz.f32"),
        ("__fdividef(p1[0], p1[1])", "div.approx"),
        ("__sinf(p1[0])", "sin.approx"),
        ("__saturatef(p1[0])", "sat"),
        ("p1[0] < 0 ? p1[0] : 0.0f", "min.f32"),
        ("(f32)((double)p1[0] * p1[1] + p1[2])", "f64"),
    ],
)
def test_ptx_that_rounds_otherwise_is_refused(expression: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        compiler().compile(CONTRACTED.replace("EXPRESSION", expression))


def test_a_text_that_is_not_cuda_is_an_error_that_shows_what_the_compiler_said() -> None:
    with pytest.raises(ExecutionError, match="broken_here"):
        compiler().compile("broken_here")
