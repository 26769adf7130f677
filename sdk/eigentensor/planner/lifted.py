"""From a program back to a graph: what lowering made of one. Pure.

Programs come without the graph that they were made from. Of those without variables, a graph that lowers to the same
calls can be found: loops become axes, loads become views of buffers or gathers, sums are sums again.
"""

from collections.abc import Sequence
from math import prod

from eigentensor.errors import CaptureError
from eigentensor.graph.node import Form, Graph, Node, constant, counter, data, leaf, node
from eigentensor.lowering.build import NAME as FINGERPRINT
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.settled import cut
from eigentensor.planner.views import INDEX, Shape, shaped, view, windows
from eigentensor.program.forms import Bound
from eigentensor.program.forms import Form as Affine
from eigentensor.program.model import Body, Instruction, Kind, Program, Result, Role
from eigentensor.program.ops import COMPARISONS, NO_GUARD, REDUCTIONS, Op

_LEAVES = {Role.INPUT: Form.INPUT, Role.WEIGHT: Form.WEIGHT, Role.STATE: Form.STATE}
_MOST = (1 << 31) - 1


def lifted(program: Program, *, stored: bool = True) -> Graph:
    """A graph of a valid program, without the fingerprint of its results. With each result of a call `stored` its
    lowering has the program's bits. Raises CaptureError for a program that no graph without variables stands for."""
    if program.variables:
        raise CaptureError("its tensors follow from variables, whose values an order gives")
    if any(program.parameter(number).elements > _MOST for number in range(len(program.buffers) + len(program.calls))):
        raise CaptureError("its tensors are too large")
    buffers: dict[int, Node] = {}
    for number, buffer in enumerate(program.buffers):
        if buffer.role is Role.CONSTANT:
            buffers[number] = data(buffer.dtype, (buffer.elements,), buffer.data)
        else:
            buffers[number] = shaped(leaf(_LEAVES[buffer.role], buffer.name, buffer.dtype, buffer.shape), (-1,))
    ends = {result.buffer for result in wanted(program)}
    for number in needed(program, ends):
        call = program.calls[number - len(program.buffers)]
        value = _Lifting(program.bodies[call.body], [buffers[argument] for argument in call.arguments]).value()
        buffers[number] = shaped(node(Form.CONTIGUOUS, value) if stored and number not in ends else value, (-1,))
    named = {result: shaped(buffers[result.buffer], result.shape) for result in wanted(program)}
    outputs = {result.name: n for result, n in named.items() if result.kind is Kind.OUTPUT}
    states = {result.name: n for result, n in named.items() if result.kind is Kind.STATE}
    return Graph(outputs, states)


def wanted(program: Program) -> list[Result]:
    """The results of a program without the fingerprint of them."""
    return [result for result in program.results if (result.kind, result.name) != (Kind.OUTPUT, FINGERPRINT)]


def needed(program: Program, ends: set[int]) -> list[int]:
    """The results of calls that these depend on, in order."""
    first, needed = len(program.buffers), set(ends)
    for number in reversed(range(first, first + len(program.calls))):
        if number in needed:
            needed.update(program.calls[number - first].arguments)
    return sorted(number for number in needed if number >= first)


class _Lifting:
    """A body on tensors, cut where its indices divide. A value has an axis for each output range, then one for each
    reduce range it depends on."""

    def __init__(self, body: Body, tensors: Sequence[Node]) -> None:
        if any(body.instructions[r.extent].op is not Op.CONST for r in body.reduce_ranges):
            raise CaptureError("how many terms a sum has is computed")
        self._shape_of_result = body.output_ranges
        (self._body, self._cut), self._tensors = cut(body), tensors
        self._steps = [self._body.instructions[r.extent].integer for r in self._body.reduce_ranges]
        self._extents = (*self._body.output_ranges, *self._steps)
        self._axes: list[tuple[int, ...]] = []  # of each value: the reduce ranges it depends on
        self._nodes: list[Node | None] = []
        self._forms: list[Affine[int] | None] = []  # of each index: a sum of multiples of ranges

    def value(self) -> Node:
        """What the body computes, with its output ranges as axes."""
        for instruction in self._body.instructions:
            self._lift(instruction)
        return shaped(self._as_node(len(self._nodes) - 1, ()), self._shape_of_result)

    def _shape(self, axes: Sequence[int]) -> Shape:
        return (*self._body.output_ranges, *(self._steps[axis] for axis in axes))

    def _lift(self, i: Instruction) -> None:
        outputs = len(self._body.output_ranges)
        form: Affine[int] | None = None
        if i.op is Op.RANGE:
            axes: tuple[int, ...] = (i.a - outputs,) if i.a >= outputs else ()
            form, value = Affine(0, ((i.a, 1),)), None
        elif i.op is Op.CONST:
            axes, value = (), constant(i.dtype, i.immediate if i.dtype.is_float else i.integer, self._shape(()))
            if i.dtype is DType.INDEX:
                form, value = Affine(i.integer), None
        elif i.op in REDUCTIONS:
            axes, value = self._reduced(i)
        else:
            axes = tuple(sorted({axis for v in i.values for axis in self._axes[v]}))
            form = self._affine(i)
            value = None if form is not None else self._computed(i, axes)
        self._axes.append(axes)
        self._nodes.append(value)
        self._forms.append(form)

    def _affine(self, i: Instruction) -> Affine[int] | None:
        """An index that is a sum of multiples of ranges."""
        forms = [self._forms[v] for v in i.values]
        if i.dtype is not DType.INDEX or i.op not in (Op.ADD, Op.SUB, Op.MUL) or None in forms:
            return None
        a, b = forms
        assert a is not None and b is not None
        if i.op is not Op.MUL:
            return a.plus(b, 1 if i.op is Op.ADD else -1)
        return a.times(b.constant) if not b.terms else b.times(a.constant) if not a.terms else None

    def _as_node(self, number: int, axes: Sequence[int]) -> Node:
        """A value over so many axes of reductions, at least its own; indices are int32."""
        value, own = self._nodes[number], self._axes[number]
        if value is None:
            form = self._forms[number]
            assert form is not None
            value, own = self._index(form, axes), tuple(axes)
        if own == tuple(axes):
            return value
        if value.op is Op.CONST:
            return constant(value.dtype, value.arg, self._shape(axes))
        outputs = self._body.output_ranges
        small = (*outputs, *(self._steps[axis] if axis in own else 1 for axis in axes))
        return node(Form.EXPAND, shaped(value, small), arg=self._shape(axes))

    def _index(self, form: Affine[int], axes: Sequence[int]) -> Node:
        shape, outputs = self._shape(axes), len(self._body.output_ranges)
        total: Node | None = None
        for number, factor in form.terms:
            place = number if number < outputs else outputs + list(axes).index(number - outputs)
            term = counter(shape, place)
            if factor != 1:
                term = node(Op.MUL, term, constant(INDEX, factor, shape))
            total = term if total is None else node(Op.ADD, total, term)
        if total is None:
            return constant(INDEX, form.constant, shape)
        return node(Op.ADD, total, constant(INDEX, form.constant, shape)) if form.constant else total

    def _computed(self, i: Instruction, axes: tuple[int, ...]) -> Node:
        if i.op is Op.LOAD:
            return self._loaded(i, axes)
        operands = [self._as_node(v, axes) for v in i.values]
        dtype = INDEX if i.dtype is DType.INDEX else i.dtype
        if i.op in (Op.CAST, Op.BITCAST):
            return operands[0] if operands[0].dtype is dtype else node(i.op, operands[0], arg=dtype)
        made = node(i.op, *operands)
        assert made.dtype is dtype or i.op in COMPARISONS
        return made

    def _loaded(self, i: Instruction, axes: tuple[int, ...]) -> Node:
        tensor, form = self._tensors[i.a - 1], self._forms[i.b]
        if form is not None and (i.c == NO_GUARD or self._is_end(i.c, form, tensor.elements)):
            whole = tensor if i.c == NO_GUARD else self._padded(tensor, form)
            places = {number: place for place, number in enumerate(self._ranges(axes))}
            if (seen := view(whole, form, places, self._shape(axes))) is not None:
                return seen
        if not tensor.elements:  # no guard lets anybody read it
            return constant(i.dtype, 0, self._shape(axes))
        if form is not None and i.c != NO_GUARD and (bounds := self._bounds(i.c)) is not None:
            places = {number: place for place, number in enumerate(self._ranges(axes))}
            if (seen := windows(tensor, form, bounds, places, self._shape(axes))) is not None:
                return seen
        at = self._as_node(i.b, axes)
        if i.c != NO_GUARD:
            at = node(Op.WHERE, self._as_node(i.c, axes), at, constant(INDEX, -1, at.shape))
        return node(Form.GATHER, tensor, at)

    def _bounds(self, guard: int) -> list[Bound[int]] | None:
        """What a guard says, if it says just that sums of multiples of ranges are not above some numbers."""
        if guard == NO_GUARD:
            return []
        i = self._body.instructions[guard]
        if i.op is Op.AND:
            both = [self._bounds(v) for v in i.values]
            return None if None in both else [bound for bounds in both for bound in bounds or ()]
        is_negated = i.op is Op.CMPNE and self._is_true(i.values[1])
        less = self._body.instructions[i.values[0]] if is_negated else i
        if less.op is not Op.CMPLT or None in (sides := [self._forms[v] for v in less.values]):
            return None
        a, b = sides
        assert a is not None and b is not None
        return [Bound(b.plus(a, -1), 0) if is_negated else Bound(a.plus(b, -1), -1)]

    def _is_true(self, number: int) -> bool:
        i = self._body.instructions[number]
        return i.op is Op.CONST and i.dtype is DType.BOOL and i.immediate == 1

    def _is_end(self, guard: int, index: Affine[int], elements: int) -> bool:
        """Whether a guard says just that an index is not beyond the end."""
        instruction = self._body.instructions[guard]
        if instruction.op is not Op.CMPLT or elements == 0:
            return False
        left, right = (self._forms[v] for v in instruction.values)
        return right == Affine(elements) and left is not None and left.plus(index, -1) == Affine(0)

    def _padded(self, tensor: Node, index: Affine[int]) -> Node:
        """A flat tensor with zeros behind it, so that an index that is never negative stays in it."""
        last = index.constant + sum(factor * (self._extents[number] - 1) for number, factor in index.terms)
        largest = max((abs(factor) for _, factor in index.terms), default=1)
        behind = -(-(last + 1) // largest) * largest - tensor.elements
        return node(Form.PAD, tensor, arg=((0, behind),)) if behind > 0 else tensor

    def _ranges(self, axes: Sequence[int]) -> list[int]:
        outputs = len(self._body.output_ranges)
        return [*range(outputs), *(outputs + axis for axis in axes)]

    def _reduced(self, i: Instruction) -> tuple[tuple[int, ...], Node]:
        own = [n for n, r in enumerate(self._body.reduce_ranges) if r.reduction == i.c]
        kept = tuple(sorted({axis for v in i.values for axis in self._axes[v]} - set(own)))
        axes = (*kept, *own)
        shape = (*self._shape(kept), *self._whole(own))
        term = [shaped(self._as_node(v, axes), shape) for v in i.values]
        ends = tuple(range(len(self._shape(kept)), len(shape)))
        if i.op is Op.REDUCE_MULACC:
            return kept, node(Op.REDUCE_ADD, node(Op.MUL, *term), arg=ends)
        (value,) = term
        if i.op is Op.REDUCE_ADD and i.dtype.is_float:
            value = node(Form.ROUNDED, value)
        return kept, node(i.op, value, arg=ends)

    def _whole(self, axes: Sequence[int]) -> Shape:
        """The extents of all reduce ranges of a reduction before they were cut."""
        whole, first = list[int](), -len(self._body.output_ranges)
        for parts in self._cut:
            if first in axes:
                whole.append(prod(parts))
            first += len(parts)
        return tuple(whole)
