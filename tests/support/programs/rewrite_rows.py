"""The rows of the audit: what tinygrad would change, in the order in which it comes to it."""

import math
from typing import Any

from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.dtype import dtypes
from tinygrad.tensor import Tensor
from tinygrad.uop.ops import AxisType, Ops, UOp

from support.programs.rewrites import AGREES, CASES, CRASHES, NAN, OWN_ORDER, OWN_TEXT, STEPS, Rewrite, summed


def _steps(param: Any, outer: Any) -> Any:
    return param.index(outer * STEPS + UOp.range(STEPS, 1, AxisType.REDUCE))


def _factor_outside(x: Any, y: Any, outer: Any) -> Any:
    return summed(_steps(x, outer) * y.index(outer * STEPS), UOp.range(STEPS, 1, AxisType.REDUCE))


def _same_term(x: Any, outer: Any) -> Any:
    return summed(x.index(outer), UOp.range(100, 1, AxisType.REDUCE))


def _two_loops(x: Any, outer: Any) -> Any:
    first, second = UOp.range(3, 1, AxisType.REDUCE), UOp.range(2, 2, AxisType.REDUCE)
    return summed(x.index(outer * STEPS + second * 3 + first), first, second)


def _negative_zero(x: Any, outer: Any) -> Any:
    return (outer < CASES // 2).where(x.index(outer), UOp.const(-0.0, dtypes.float32))


def _negative_constant(x: Any, outer: Any) -> Any:
    return UOp.const(-0.5, dtypes.float32).alu(Ops.TRUNC)


def _gated(x: Any, outer: Any) -> Any:
    gate = outer < CASES // 2
    return gate.where(x.index(outer.valid(gate)).cast(dtypes.int32), UOp.const(1000, dtypes.int32))


def _tending_to_one(x: Any) -> Any:
    return (x.ne(math.inf) & x.ne(-math.inf)).where(x.alu(Ops.FDIV, 1 + x), 1.0)


def _quotient(x: Any, y: Any) -> Any:
    return x.alu(Ops.FDIV, y)


def _first_half() -> Tensor:
    return Tensor.arange(CASES) < CASES // 2


def rows() -> list[Rewrite]:
    """The table, in the order in which tinygrad comes to the rules."""
    r = Rewrite
    return [
        # what the scheduler does
        r("x·0 → 0", "symbolic_simple", lambda x: x * 0, cut=True),
        r("x + 0 → x", "symbolic_simple", lambda x: x + 0, cut=True),
        r("(x·y) / y → x", "symbolic_simple", lambda x, y: (x * y) / y, "ff", True, lambda x, y: _quotient(x * y, y)),
        r("x / x → 1", "symbolic_simple", lambda x: x / x, cut=True, instead=lambda x: _quotient(x, x)),
        r("i // i → 1", "symbolic_simple", lambda i: i // i, "i", True),
        r(
            "constants of integers folded without wrapping",
            "symbolic_simple",
            lambda i: (i.cast(dtypes.uint16) * 0 + 65535 + 7).cast(dtypes.int32),
            "i",
            True,
        ),
        r("x·c₁·c₂ → x·(c₁·c₂)", "symbolic", lambda x: x * 0.1 * 0.3, cut=True),
        r("x + c₁ + c₂ → x + (c₁ + c₂)", "symbolic", lambda x: x + 0.1 + 0.3, cut=True),
        r("x·c₁ + x·c₂ → x·(c₁ + c₂)", "symbolic", lambda x: x * 0.1 + x * 0.3, cut=True),
        r("x + x·c → x·(c + 1)", "symbolic", lambda x: x + x * 0.1, cut=True),
        r("(y + x) + x → y + 2·x", "symbolic", lambda x, y: (y + x) + x, "ff", True),
        r("(x + c) + y → (x + y) + c", "symbolic", lambda x, y: (x + 0.1) + y, "ff", True),
        r("(x·c)·y → (x·y)·c", "symbolic", lambda x, y: (x * 0.1) * y, "ff", True),
        r(
            "(y + (b ? x : c₁)) + (b ? y : c₂) → y + (b ? x + y : c₁ + c₂)",
            "symbolic",
            lambda x, y, b: (y + b.where(x, 1.0)) + b.where(y, 0.1),
            "ffb",
            True,
        ),
        r(
            "(b ? x : 0) + (b ? 0 : y) → b ? x : y",
            "symbolic",
            lambda x, y, b: b.where(x, 0.0) + b.where(0.0, y),
            "ffb",
            True,
        ),
        r("(i + c₁) < c₂ → i < c₂ − c₁, as if i + c₁ never wrapped", "symbolic", lambda i: (i + 5) < 7, "i", True),
        r(
            "(i // c₁) // c₂ → i // (c₁·c₂), and the product wraps",
            "symbolic",
            lambda i: (i // 100000) // 100000,
            "i",
            True,
            stock=AGREES,
        ),
        r(
            "comparisons, maxima and quotients decided by bounds that ignore wrapping",
            "symbolic",
            lambda u: ((u & 15) - 16) < 5,
            "u",
            True,
        ),
        r(
            "Σ x → x·n, the same x n times",
            "pm_reduce_simplify",
            lambda x: x.reshape(-1, 1).expand(-1, 100).sum(1),
            cut=True,
            kernel=_same_term,
        ),
        # what its code generation does
        r(
            "constants of floats folded as Python does: truncated zeros lose their sign, max takes the first",
            "symbolic_simple",
            lambda x: x.full_like(-0.5).trunc(),
            kernel=_negative_constant,
        ),
        r("1 / (x·x) → (1/x)·(1/x)", "sym", lambda x: (x * x).reciprocal()),
        r("1 / (x·x·x) → (1/x)·(1/x)·(1/x)", "sym", lambda x: (x * x * x).reciprocal()),
        r("1 / (x·c) → (1/x)·(1/c)", "sym", lambda x: (x * 0.1).reciprocal()),
        r("x·(1/(1 + x)) → 1 − 1/(1 + x)", "sym", lambda x: x * (1 + x).reciprocal(), instead=_tending_to_one),
        r("Σ x·c → (Σ x)·c", "sym", lambda x: x * 0.1, over=True),
        r(
            "Σ x·y → (Σ x)·y, y the same in all steps",
            "sym",
            lambda x, y: x * y[:, :1],
            "ff",
            over=True,
            kernel=_factor_outside,
        ),
        r(
            "b ? load : −0 → a load that is +0 where b is false",
            "pm_move_where_on_load",
            lambda x: _first_half().where(x, -0.0),
            kernel=_negative_zero,
        ),
        r(
            "b ? load : c → a load that is c where b is false, in the narrower type of memory",
            "pm_move_gates_from_index",
            lambda x: _first_half().where(x.cast(dtypes.int32), 1000),
            "B",
            kernel=_gated,
        ),
        r(
            "float32 → float16 → float32 dropped",
            "pm_simplify_add_image",
            lambda x: x.cast(dtypes.float16).cast(dtypes.float32) * 1.5,
        ),
        r("x·(1/y) → x / y", "decompositions", lambda x, y: x * y.reciprocal(), "ff", instead=_quotient),
        r("max(x, y) → x < y ? y : x", "decompositions", lambda x, y: x.maximum(y), "ff"),
        r("−i < c → −c < i", "decompositions", lambda i: (i * -1) < 5, "i"),
        r(
            "loops of one sum joined in another order",
            "simplify_merge_adjacent",
            lambda x: x.reshape(-1, 2, 3).permute(0, 2, 1).sum((1, 2)),
            over=True,
            kernel=_two_loops,
            here=OWN_ORDER,
        ),
        r(
            "terms of several steps added before they are accumulated",
            "reduce_ranges_to_acc",
            lambda x: x,
            over=True,
            opts=(Opt(OptOps.UNROLL, 0, 3),),
            here=OWN_ORDER,
            stock=AGREES,
        ),
        # what its renderers, and the compilers as it calls them, do
        r("x·(y·z) → (x·y)·z: parentheses dropped", "C renderers", lambda x, y, z: x * (y * z), "fff", here=OWN_TEXT),
        r(
            "x + (y + z) → (x + y) + z: parentheses dropped",
            "C renderers",
            lambda x, y, z: x + (y + z),
            "fff",
            here=OWN_TEXT,
        ),
        r(
            "x·y + z rounded once",
            "clang, LLVM, OpenCL",
            lambda x, y, z: x * y + z,
            "fff",
            here="`-ffp-contract=off`, no flags in LLVM; `MULACC` where it is meant",
        ),
        r(
            "float16 kept as float32 between operations",
            "C renderers",
            lambda x, y: (x * y) + y,
            "hh",
            here="rounded after each operation",
        ),
        r(
            "integers of 8 and 16 bits not wrapped between operations",
            "C renderers",
            lambda x, y, z: (x + y) < z,
            "BBB",
            here="typed registers; the second way wraps",
        ),
        r(
            "signed integers taken never to wrap",
            "LLVM renderer, clang",
            lambda i, j: (i + j) < i,
            "ii",
            here="`-fwrapv`; no `nsw`",
        ),
        r(
            "NaN with whatever bits the processor leaves",
            "clang, LLVM, OpenCL",
            lambda x, y: x + y,
            "ff",
            stock=NAN,
            here="canonical at stores and bit casts",
        ),
        r(
            "float → integer undefined beyond its range",
            "clang, LLVM, OpenCL",
            lambda x: x.cast(dtypes.int32),
            here="saturating",
        ),
        r(
            "integer → float16 → float32 dropped where the integer has few bits, with its infinities",
            "LLVM",
            lambda i: ((i & 7) << 20).cast(dtypes.float16).cast(dtypes.float32),
            "i",
            stock=AGREES,
            here="halves rounded by integer arithmetic; infinities chosen first",
        ),
        r(
            "i // 0, and the smallest // −1",
            "clang, LLVM",
            lambda i, j: i // j,
            "ii",
            stock=CRASHES,
            here="chosen away before dividing",
        ),
        r(
            "shifts by the width or more undefined",
            "clang, LLVM, OpenCL",
            lambda u, v: u << v,
            "uu",
            stock=AGREES,
            here="chosen away before shifting",
        ),
    ]
