"""Sums over windows, written anew with fewer steps: every bit stays."""

from dataclasses import dataclass
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eigentensor.lowering.kernel import Kernel, add, fresh_array, fresh_axis, index, less, scaled, where
from eigentensor.lowering.limits import guard
from eigentensor.lowering.windows import gathered
from eigentensor.program.expression import Node, binary, conjunction, const, counter, load, reduction, walk
from eigentensor.program.ops import REDUCTIONS, DType, Op
from support.programs.kernels import array, run

SPECIAL = np.array([1 << 31, 0, 0x7F800000, 0xFF800000, 0x7FC00001, 1], np.uint32).view(np.float32)


@dataclass(frozen=True)
class Rows:
    """Windows as tinygrad lays them out: row number F = repeated · r + i + shift is element F % m of window F // m."""

    extent: int  #: of i
    repeats: int  #: of r
    repeated: int
    shift: int
    m: int
    short: int  #: elements of a window that count, from the first one on
    stride: int  #: of elements that count, among these
    most: int  #: below which F counts
    is_where: bool  #: whether the sum chooses, or the load does

    def kernel(self) -> Kernel:
        """The sum over r, of an array of `elements`, for each i."""
        i, r = fresh_axis(self.extent), fresh_axis(self.repeats, is_reduce=True)
        row = add(add(scaled(counter(r), self.repeated), counter(i)), index(self.shift))
        window, inside = (binary(op, row, index(self.m)) for op in (Op.FLOORDIV, Op.FLOORMOD))
        counts = conjunction(
            less(row, index(self.most)),
            less(inside, index(self.short)),
            less(binary(Op.FLOORMOD, inside, index(self.stride)), index(1)),
        )
        element = add(scaled(window, self.m), binary(Op.FLOORDIV, inside, index(self.stride)))
        read = load(array("x", self.elements), element, counts)
        chosen = where(counts, read, const(DType.FLOAT32, 0)) if self.is_where else read
        return Kernel(fresh_array(DType.FLOAT32, self.extent), (i,), reduction(Op.REDUCE_ADD, (r,), chosen))

    @property
    def elements(self) -> int:
        """More than any row has."""
        return self.repeated * self.repeats + self.extent + self.shift + self.m


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Half of them as tinygrad has them, for windows of `taps` elements, `apart` from each other."""
    extent, apart, taps, stride = (draw(st.integers(*of)) for of in ((1, 9), (1, 3), (1, 5), (1, 3)))
    shift, is_where = draw(st.integers(0, 3)), draw(st.booleans())
    if draw(st.booleans()):
        m = extent + apart
        short = max(1, extent - (taps - 1) * apart + draw(st.sampled_from([0, 0, 1])))
        return Rows(extent, -(-taps * m // extent), extent, 0, m, short, stride, taps * m, is_where)
    repeated = draw(st.sampled_from([extent, extent + 1, 2 * extent, 3]))
    m = max(1, repeated + draw(st.integers(-1, 3)))
    short = max(1, draw(st.sampled_from([m, m - 1, repeated - 2, repeated])))
    most = draw(st.sampled_from([3 * m, 2 * m, extent * taps, 7, 10_000]))
    return Rows(extent, taps, repeated, shift, m, short, stride, most, is_where)


@given(rows(), st.integers(0, 9), st.sampled_from([0.0, 0.1]))
def test_a_sum_over_windows_keeps_its_bits(of: Rows, seed: int, special: float) -> None:
    whole = of.kernel()
    fewer = Kernel(whole.result, whole.axes, gathered(whole.value))
    random = np.random.default_rng(seed)
    x = random.standard_normal(of.elements, dtype=np.float32)
    x = np.where(random.random(of.elements) < special, random.choice(SPECIAL, of.elements), x)
    before, after = (run([guard(kernel)], x=x) for kernel in (whole, fewer))
    np.testing.assert_array_equal(before.view(np.uint32), after.view(np.uint32))
    assert steps(fewer.value) <= steps(whole.value)


def steps(value: Node) -> int:
    """How many steps the sums of an expression have in all."""
    return sum(prod(axis.extent for axis in n.arg) for n in walk(value) if n.op in REDUCTIONS)


def test_of_a_pool_with_as_many_steps_as_elements_one_is_left() -> None:
    pool = Rows(extent=8, repeats=3, repeated=8, shift=0, m=9, short=8, stride=2, most=18, is_where=True)
    fewer = gathered(pool.kernel().value)
    assert steps(pool.kernel().value) == 3 and steps(fewer) == 0
    assert not any(n.op in (Op.CMPLT, Op.WHERE) for n in walk(fewer))
    assert [n.src[1] for n in walk(fewer) if n.op in (Op.FLOORDIV, Op.FLOORMOD)] == [index(2)] * 2


def test_a_convolution_of_three_taps_has_three_steps() -> None:
    taps = Rows(extent=6, repeats=4, repeated=6, shift=0, m=7, short=4, stride=1, most=21, is_where=False)
    fewer = gathered(taps.kernel().value)
    assert steps(fewer) == 3
    assert not any(n.op in (Op.FLOORDIV, Op.FLOORMOD) for n in walk(fewer))


def test_other_sums_are_left_as_they_are() -> None:
    i, r = fresh_axis(4), fresh_axis(5, is_reduce=True)
    row = add(scaled(counter(r), 4), counter(i))
    for element in (row, binary(Op.FLOORMOD, row, index(7))):
        value = reduction(Op.REDUCE_ADD, (r,), load(array("x", 20), element, less(counter(i), index(3))))
        assert gathered(value) is value
