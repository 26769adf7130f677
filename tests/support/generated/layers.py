"""Random bodies with the loops of real layers: products, windows, rows, look-ups, transposes, running sums."""

from functools import reduce as fold

from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Node,
    binary,
    conjunction,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from eigentensor.program.ops import REDUCTIONS, DType, Op
from eigentensor.program.signatures import UNIFORM
from support.generated.expressions import LOADS, TYPES, Expressions, _Scope

INDEX, BOOL, F32 = DType.INDEX, DType.BOOL, DType.FLOAT32
#: Sizes of loops: around powers of two, and some that no tile divides.
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 19, 23, 31, 32, 33, 40, 48, 63, 64, 65, 70)
#: Steps of all elements of a body's reduction, about; of a product so many times as much.
STEPS, MORE = 6_000, 4
NARROW = [dtype for dtype in TYPES if dtype.is_integer and dtype.size < 8]
Value = tuple[Node, tuple[Axis, ...]]


class Layers(Expressions):
    """Bodies over these arrays and variables. Those of `body` have longer reductions and gathers within bounds, too."""

    room = STEPS

    def body(self, shape: tuple[int, ...], dtype: DType) -> Lowered:
        self.elements = fold(lambda a, b: a * b, shape, 1)
        return super().body(shape, dtype)

    def layer(self) -> tuple[Lowered, tuple[int, ...]]:
        """A body and the shape of what it writes."""
        self.loads = LOADS - 4  # the rest is for expressions around it
        often = (self._product, self._product, self._pointwise, self._pointwise)
        others = (self._rows, self._look_up, self._chosen, self._window, self._turned, self._running)
        value, axes = self.random.choice(often + others)()
        return to_body(value, axes), tuple(axis.extent for axis in axes)

    def replaced(self, old: Array, shape: tuple[int, ...]) -> Lowered:
        """A state of which one element, where a variable or the data says, becomes another value."""
        self.loads = LOADS - 4
        axes = tuple(self._axis(extent) for extent in shape)
        element = self._flat(axes)
        here = binary(Op.CMPEQ, element, self._index(_Scope(()), max(0, old.elements - 1)))
        if self.random.random() < 0.5:
            here = binary(Op.CMPEQ, element, self._gathered(_Scope(())))
        new = self._value(old.dtype, 2, _Scope(axes))
        return to_body(node(Op.WHERE, old.dtype, here, new, load(old, element)), axes)

    # Expressions, with more

    def _reduction(self, scope: _Scope) -> Node:
        self.room = STEPS // max(1, self.elements)
        return super()._reduction(scope)

    def _extent(self) -> tuple[Node, int]:
        if self.variables and self.random.random() < 0.3:
            return super()._extent()
        extent = self.random.choice([0, *(e for e in EXTENTS if e <= max(1, self.room))])
        self.room //= max(1, extent)
        return const(INDEX, extent), extent

    def _load(self, array: Array, scope: _Scope) -> Node:
        if not array.elements or self.loads > LOADS or self.random.random() < 0.8:
            return super()._load(array, scope)
        self.loads += 1
        return load(array, self._within(self._gathered(scope), array.elements))

    def _within(self, element: Node, count: int) -> Node:
        """An index from 0 to count − 1: wrapped around, or the nearest."""
        if self.random.random() < 0.5:
            return binary(Op.FLOORMOD, element, const(INDEX, count))
        return binary(Op.MIN, binary(Op.MAX, element, const(INDEX, 0)), const(INDEX, count - 1))

    # Layers

    def _product(self) -> Value:
        """Rows of one array by columns of another, either of them turned or not."""
        left, right = self._large(), self._large()
        inner = self._fitting(min(left.elements, right.elements))
        rows = self._fitting(left.elements // inner)
        columns = self._fitting(min(right.elements // inner, max(1, MORE * STEPS // (inner * rows))))
        i, j, k = self._axis(rows), self._axis(columns), self._axis(inner, True)
        a = load(left, self._places((i, inner), (k, 1)) if self._coin() else self._places((k, rows), (i, 1)))
        b = load(right, self._places((k, columns), (j, 1)) if self._coin() else self._places((j, inner), (k, 1)))
        dtype = self.random.choice((F32, F32, left.dtype, right.dtype))
        return self._finished(self._sum_of_products(dtype, (k,), a, b), (i, j))

    def _window(self) -> Value:
        """Sums over the surroundings of each place, zero beyond the border."""
        image, weight = self._large(), self._large()
        width = self._fitting(min(image.elements, 40))
        height = self._fitting(min(image.elements // width, 40))
        inner = min(image.elements // (width * height), 4)
        outer = max(1, min(weight.elements // (9 * inner), MORE * STEPS // (9 * inner * width * height), 17))
        o, y, x = (self._axis(extent) for extent in (outer, height, width))
        c, dy, dx = (self._axis(extent, True) for extent in (inner, 3, 3))
        row, column = (self._sum(counter(p), counter(d), const(INDEX, -1)) for p, d in ((y, dy), (x, dx)))
        guard = conjunction(*self._inside(row, height), *self._inside(column, width))
        place = self._sum(self._places((c, width * height)), binary(Op.MUL, row, const(INDEX, width)), column)
        a = load(image, place, guard)
        b = load(
            weight, self._wrapped(self._places((o, 9 * inner), (c, 9), (dy, 3), (dx, 1)), 9 * inner * outer, weight)
        )
        dtype = self.random.choice((F32, F32, image.dtype))
        return self._finished(self._sum_of_products(dtype, (c, dy, dx), a, b), (o, y, x))

    def _rows(self) -> Value:
        """Two reductions of each row, the second with the result of the first, and each element with both."""
        x = self._large()
        width = self._fitting(x.elements)
        i, j = self._axis(min(self._fitting(x.elements // width), max(1, MORE * STEPS // width))), self._axis(width)
        reductions: list[Node] = []
        for _ in range(2):
            k = self._axis(width, True)
            term = load(x, self._places((i, width), (k, 1)))
            for earlier in reductions:
                term = self._combined(term, earlier)
            op = self.random.choice([op for op in sorted(REDUCTIONS - {Op.REDUCE_MULACC}) if term.dtype in UNIFORM[op]])
            reductions.append(reduction(op, (k,), term))
        return self._finished(fold(self._combined, reductions, load(x, self._places((i, width), (j, 1)))), (i, j))

    def _look_up(self) -> Value:
        """Rows of a table, each where an integer says; nothing, the nearest or another where there is none."""
        table, count = self._large(), self._fitting(99)
        width = self._fitting(table.elements)
        i, j = self._axis(count), self._axis(width)
        row = self._gathered(_Scope((i,)))
        if self._coin():
            row, guard = self._within(row, table.elements // width), None
        else:
            guard = conjunction(*self._inside(row, table.elements // width))
        place = self._sum(binary(Op.MUL, row, const(INDEX, width)), counter(j))
        return self._finished(load(table, place, guard), (i, j))

    def _chosen(self) -> Value:
        """For each number a reduction of the values that carry it."""
        values, numbers = self._large(), self._large(NARROW)
        count, steps = self._fitting(40), self._fitting(min(values.elements, numbers.elements, 70))
        i, k = self._axis(count), self._axis(steps, True)
        carried = node(Op.CAST, INDEX, self._typed(self.random.choice(NARROW), load(numbers, counter(k))))
        op = self.random.choice([op for op in sorted(REDUCTIONS - {Op.REDUCE_MULACC}) if values.dtype in UNIFORM[op]])
        term = load(values, counter(k), binary(Op.CMPEQ, carried, counter(i)))
        return self._finished(reduction(op, (k,), term), (i,))

    def _pointwise(self) -> Value:
        """Each element of an array with others of the same place, and with anything."""
        last = self.arrays[-1]  # of which nobody else may know: then the result may lie where it lay
        x = last if last.elements and self.random.random() < 0.7 else self._large()
        width = self.random.choice([e for e in (x.elements, *EXTENTS) if x.elements % e == 0])
        axes = self._axis(x.elements // width), self._axis(width)
        beside = self.random.choice([a for a in self.arrays if a.elements == x.elements])
        value = self._combined(load(x, self._flat(axes)), load(beside, self._flat(axes)))
        return self._finished(value, axes)

    def _turned(self) -> Value:
        """A transpose."""
        x = self._large()
        width = self._fitting(x.elements)
        i, j = self._axis(width), self._axis(self._fitting(x.elements // width))
        return self._finished(load(x, self._places((j, width), (i, 1))), (i, j))

    def _running(self) -> Value:
        """What was so far: a reduction of all elements that are not later."""
        x = self._large()
        i, k = self._axis(count := self._fitting(x.elements)), self._axis(count, True)
        op = self.random.choice([op for op in sorted(REDUCTIONS - {Op.REDUCE_MULACC}) if x.dtype in UNIFORM[op]])
        later = binary(Op.CMPLT, counter(i), counter(k))
        value = load(x, counter(k))
        if self._coin():
            value = node(Op.WHERE, x.dtype, later, const(x.dtype, 0), value)
        else:
            value = load(x, counter(k), binary(Op.CMPEQ, later, const(BOOL, 0)))
        return self._finished(reduction(op, (k,), value), (i,))

    # Parts

    def _finished(self, value: Node, axes: tuple[Axis, ...]) -> Value:
        """Often with an expression around it."""
        if self._coin():
            value = self._combined(value, self._value(value.dtype, 2, _Scope(axes, (value,))))
        if self.random.random() < 0.2:
            value = self._typed(self.random.choice(TYPES), value)
        return value, axes

    def _combined(self, a: Node, b: Node) -> Node:
        ops = [op for op in (Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.DIV) if a.dtype in UNIFORM[op]]
        return binary(self.random.choice(ops), a, self._typed(a.dtype, b))

    def _sum_of_products(self, dtype: DType, axes: tuple[Axis, ...], a: Node, b: Node) -> Node:
        a, b = self._typed(dtype, a), self._typed(dtype, b)
        if dtype is F32 and self.random.random() < 0.7:
            return reduction(Op.REDUCE_MULACC, axes, a, b)
        return reduction(Op.REDUCE_ADD, axes, binary(Op.MUL, a, b))

    def _typed(self, dtype: DType, value: Node) -> Node:
        return value if value.dtype is dtype else node(Op.CAST, dtype, value)

    def _large(self, dtypes: list[DType] | None = None) -> Array:
        """One of the larger arrays of some type, mostly."""
        fitting = [a for a in self.arrays if a.elements and (dtypes is None or a.dtype in dtypes)]
        fitting = fitting or [a for a in self.arrays if a.elements]
        return max(self.random.choices(fitting, k=3), key=lambda a: a.elements)

    def _fitting(self, most: int) -> int:
        return self.random.choice([e for e in EXTENTS if e <= max(1, most)])

    def _places(self, *terms: tuple[Axis, int]) -> Node:
        parts = [(counter(axis), stride) for axis, stride in terms]
        return self._sum(
            *(part if stride == 1 else binary(Op.MUL, part, const(INDEX, stride)) for part, stride in parts)
        )

    def _sum(self, first: Node, *rest: Node) -> Node:
        return fold(lambda a, b: binary(Op.ADD, a, b), rest, first)

    def _flat(self, axes: tuple[Axis, ...]) -> Node:
        strides = [fold(lambda a, b: a * b.extent, axes[n + 1 :], 1) for n in range(len(axes))]
        return self._places(*zip(axes, strides, strict=True)) if axes else const(INDEX, 0)

    def _inside(self, element: Node, count: int) -> tuple[Node, Node]:
        return binary(Op.CMPLT, const(INDEX, -1), element), binary(Op.CMPLT, element, const(INDEX, count))

    def _wrapped(self, element: Node, needed: int, array: Array) -> Node:
        return element if needed <= array.elements else binary(Op.FLOORMOD, element, const(INDEX, array.elements))

    def _coin(self) -> bool:
        return self.random.random() < 0.5
