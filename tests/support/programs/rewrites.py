"""A rewrite of tinygrad 0.14.0 that was found to change bits, and how it is tried; `rewrite_rows` has all of them.

A formula takes tensors and UOps alike: a row is a function to capture, and a kernel for tinygrad's own passes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad.codegen import pm_add_loads
from tinygrad.codegen.decomp.op import get_late_rewrite_patterns, get_simplifying_rewrite_patterns
from tinygrad.codegen.late.coalesce import pm_simplify_add_image
from tinygrad.codegen.late.gater import pm_move_gates_from_index
from tinygrad.codegen.opt import Opt
from tinygrad.codegen.simplify import pm_reduce_simplify
from tinygrad.renderer.llvmir import LLVMRenderer
from tinygrad.tensor import Tensor
from tinygrad.uop.ops import AxisType, KernelInfo, Ops, PatternMatcher, UOp, graph_rewrite
from tinygrad.uop.symbolic import pm_move_where_on_load, sym, symbolic, symbolic_simple

from eigentensor.capture.convert import DTYPES
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from support.generated.edges import edges, held
from support.programs.uop_meaning import meaning

CASES, STEPS = 3009, 6
CODE = tuple(LLVMRenderer.code_for_op)
MATCHERS = {
    "symbolic_simple": symbolic_simple,
    "symbolic": symbolic,
    "sym": sym,
    "decompositions": get_simplifying_rewrite_patterns(CODE) + get_late_rewrite_patterns(CODE, False),
    "pm_simplify_add_image": PatternMatcher(pm_simplify_add_image.patterns[-1:]),
    "pm_reduce_simplify": pm_reduce_simplify,
    "pm_move_where_on_load": pm_move_where_on_load,
    "pm_move_gates_from_index": pm_add_loads + pm_move_gates_from_index,
}
TYPES = {
    "f": DType.FLOAT32, "h": DType.FLOAT16, "b": DType.BOOL, "i": DType.INT32, "u": DType.UINT32, "B": DType.UINT8,
}  # fmt: skip
STRONG = {ours: theirs for theirs, ours in DTYPES.items()}


DIFFERS, AGREES, NAN, CRASHES = "other bits", "the same", "other NaNs", "SIGFPE"
IN_PROGRAM = "in the program"
FOR_RANGE = "in the program, for range"
NOT_REACHED = "not reached; guarded"
OWN_ORDER = "not reached; loops stay in order"
OWN_TEXT = "own text; own renderers"


@dataclass(frozen=True)
class Rewrite:
    """One row.

    `takes` are the types of the formula's arguments; `over` says that they have a second axis, which is summed. `rule`
    is the matcher, or who else does it; `cut` says that the scheduler does it already, `instead` is what capture makes
    of the formula itself. `stock` is what becomes of the kernel in tinygrad's own hands, on a CPU with 512-bit vectors.
    """

    name: str
    rule: str
    formula: Callable[..., Any]
    takes: str = "f"
    cut: bool = False
    instead: Callable[..., Any] | None = None
    over: bool = False
    kernel: Callable[..., Any] | None = None
    opts: tuple[Opt, ...] = ()
    stock: str = DIFFERS
    here: str = ""

    @property
    def is_rule(self) -> bool:
        return self.rule in MATCHERS

    @property
    def answer(self) -> str:
        """What is done about it."""
        return self.here or (IN_PROGRAM if self.cut else FOR_RANGE if self.instead else NOT_REACHED)

    def function(self, **tensors: Tensor) -> Tensor:
        """The formula, of tensors."""
        value = self.formula(*tensors.values())
        return value.sum(-1) if self.over and value.ndim > 1 else value

    @cached_property
    def arrays(self) -> list[NDArray[Any]]:
        """The arguments, cases by steps if the row reduces."""
        shape = (CASES, STEPS) if self.over else (CASES,)
        return [cases(TYPES[t], number, shape) for number, t in enumerate(self.takes)]

    @cached_property
    def before(self) -> Any:
        """The value that is stored, as the scheduler would have it if it changed nothing."""
        return self._stored(self.formula)

    @cached_property
    def captured(self) -> Any:
        """The same as capture writes it down."""
        return self._stored(self.instead or self.formula)

    def _stored(self, formula: Callable[..., Any]) -> Any:
        outer, inner = UOp.range(CASES, 0, AxisType.WEAK), UOp.range(STEPS, 1, AxisType.REDUCE)
        place = outer * STEPS + inner if self.over else outer
        params = [UOp.param(1 + n, STRONG[TYPES[t]], (a.size,)) for n, (t, a) in enumerate(self.inputs)]
        values = [p.index(place) for p in params]
        if self.kernel is None:
            return summed(formula(*values), inner) if self.over else formula(*values)
        return self.kernel(*params, outer)

    @property
    def inputs(self) -> list[tuple[str, NDArray[Any]]]:
        return list(zip(self.takes, self.arrays, strict=True))

    @property
    def ast(self) -> Any:
        """The kernel for tinygrad's code generation."""
        outer = UOp.range(CASES, 0, AxisType.WEAK)
        target = UOp.param(0, self.before.dtype, (CASES,)).index(outer)
        return target.store(self.before).end(outer).sink(arg=KernelInfo(name="stock", opts_to_apply=self.opts))

    @property
    def rewritten(self) -> Any:
        return graph_rewrite(self.before, MATCHERS[self.rule], ctx={})

    def mean(self, value: Any, fused: bool = False) -> NDArray[Any]:
        """The values of a node for the cases of this row, flat."""
        values = meaning(value, [np.zeros(1), *(a.reshape(-1) for a in self.arrays)], fused)
        return np.ascontiguousarray(np.broadcast_to(values, (CASES, 1, 1)).reshape(-1))

    @cached_property
    def share(self) -> float:
        """The share of cases whose bits the rule changes."""
        before, after = self.mean(self.before), self.mean(self.rewritten)
        return float(np.mean(bits(before) != bits(after)))


def bits(a: NDArray[Any]) -> NDArray[Any]:
    return a.view(f"u{a.dtype.itemsize}")


def cases(dtype: DType, seed: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Two thirds are values at borders, in all mixtures; the same for ever."""
    random, count = np.random.default_rng(seed), int(np.prod(shape))
    border = random.choice(held(dtype, edges(dtype)), count)
    if dtype.is_float:
        plain = random.standard_normal(count).astype(np.float32).astype(STORAGE[dtype])
    else:
        plain = random.integers(0, 2 if dtype is DType.BOOL else 100, count).astype(STORAGE[dtype])
    return np.where(random.random(count) < 2 / 3, border, plain).reshape(shape)


def summed(term: Any, *loops: Any) -> Any:
    return term.reduce(*loops, arg=Ops.ADD)
