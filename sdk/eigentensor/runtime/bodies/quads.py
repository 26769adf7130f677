"""Products of bytes, four side by side in memory, as one instruction: their sum, exact in any order."""

from collections.abc import Iterator
from typing import NamedTuple

from eigentensor.numerics.dtypes import DType
from eigentensor.program.forms import Form, atom, linear
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.part import Part, Quads
from eigentensor.runtime.bodies.rewriting import join

FOUR = 4
BYTES = frozenset({DType.INT8, DType.UINT8})
#: What is done to four bytes at once as to each of them.
ALIKE = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.SHR, Op.CAST})


class _Group(NamedTuple):
    """The first of four products, by its factors: bytes."""

    left: int
    right: int


def join_in_quads(body: Body, axes: tuple[int, ...]) -> Body:
    """As `join`, with each sum of four products of neighbouring bytes as one instruction."""
    return with_quads(join(body, axes))


def with_quads(body: Body) -> Body:
    """The same body with each sum of four products of neighbouring bytes as one instruction; itself if it has none."""
    if isinstance(body, Part) or not any(i.op is Op.MUL and i.dtype is DType.INT32 for i in body.instructions):
        return body
    search = _Search(body)
    sums = {number: found for number, i in enumerate(body.instructions) if (found := search.sum(number, i)) is not None}
    wide = frozenset[int]().union(*(search.below(g) for groups, _ in sums.values() for g in groups))
    return _written(body, sums, wide) if sums else body


class _Search:
    def __init__(self, body: Body) -> None:
        self.of, self.analysis = body.instructions, Analysis(body)
        self.forms: dict[int, Form[int]] = {}
        self.users: dict[int, list[int]] = {}
        self.read: list[bool] = []  # whether memory goes into a value
        for number, i in enumerate(self.of):
            self.read.append(i.op is Op.LOAD or any(self.read[v] for v in i.values))
            for v in i.values:
                self.users.setdefault(v, []).append(number)
            if i.dtype is DType.INDEX:
                known = [self.forms[v] for v in i.values if i.op in (Op.ADD, Op.SUB, Op.MUL)]
                form = Form(i.integer) if i.op is Op.CONST else linear(i.op, *known) if known else None
                self.forms[number] = atom(number) if form is None else form

    def sum(self, number: int, i: Instruction) -> tuple[list[_Group], list[int]] | None:
        """The groups in a whole sum of int32, and its other terms; None of a part of a sum, or where there is none."""
        if not self._is_sum(i) or any(self._is_sum(self.of[user]) for user in self.users.get(number, ())):
            return None
        groups, rest, products = list[_Group](), list[int](), list[int]()
        for term in self._terms(number):
            (rest if self._factors(term) is None else products).append(term)
        for begin in range(0, len(products), FOUR):
            four = products[begin : begin + FOUR]
            group = self._group(four)
            if group is None:
                rest += four
            else:
                groups.append(group)
        return (groups, rest) if groups else None

    def _is_sum(self, i: Instruction) -> bool:
        return i.op is Op.ADD and i.dtype is DType.INT32

    def _terms(self, number: int) -> Iterator[int]:
        for v in self.of[number].values:
            if self._is_sum(self.of[v]) and len(self.users[v]) == 1:
                yield from self._terms(v)
            else:
                yield v

    def _factors(self, number: int) -> tuple[int, int] | None:
        """The two bytes of a product of bytes."""
        product = self.of[number]
        casts = [self.of[v] for v in product.values] if product.op is Op.MUL and product.dtype is DType.INT32 else []
        if not casts or any(c.op is not Op.CAST or self.of[c.a].dtype not in BYTES for c in casts):
            return None
        return casts[0].a, casts[1].a

    def _group(self, four: list[int]) -> _Group | None:
        factors = [pair for product in four if (pair := self._factors(product)) is not None]
        if len(factors) < FOUR:
            return None
        left, right = factors[0]
        if not all(self._is_next(left, a, k) and self._is_next(right, b, k) for k, (a, b) in enumerate(factors)):
            return None
        # what changes seldom is the second: what is computed of it alone is computed once for all rows
        depends = [len([r for r in self.analysis.depends[v] if r < self.analysis.outputs]) for v in (left, right)]
        return _Group(left, right) if depends[0] >= depends[1] else _Group(right, left)

    def _is_next(self, first: int, later: int, k: int) -> bool:
        """Whether a byte is the same as the first one, `k` elements further on in whatever is loaded for it."""
        a, b = self.of[first], self.of[later]
        if a.op is Op.LOAD:
            away = self.forms[b.b].plus(self.forms[a.b], -1) if b.op is Op.LOAD else Form(-1)
            return (a.a, a.c, b.c) == (b.a, NO_GUARD, NO_GUARD) and away == Form(k)
        if self._is_uniform(first):
            return first == later
        if a.op not in ALIKE or (a.op, a.dtype) != (b.op, b.dtype) or a.dtype not in BYTES:
            return False
        if a.op is Op.SHR and not self._is_uniform(a.b):
            return False
        pairs = zip(a.values, b.values, strict=True)
        return all(self.of[v].dtype in BYTES and self._is_next(v, w, k) for v, w in pairs)

    def _is_uniform(self, number: int) -> bool:
        """Whether a value is the same for all elements of the result, and for all four."""
        return all(r >= self.analysis.outputs for r in self.analysis.depends[number]) and not self.read[number]

    def below(self, group: _Group) -> set[int]:
        """The values that become four bytes."""
        found, stack = set[int](), [group.left, group.right]
        while stack:
            if (number := stack.pop()) not in found and not self._is_uniform(number):
                found.add(number)
                stack += self.of[number].values if self.of[number].op is not Op.LOAD else ()
        return found


def _written(body: Body, sums: dict[int, tuple[list[_Group], list[int]]], wide: frozenset[int]) -> Body:
    made: list[Instruction] = []
    at: dict[int, int] = {}
    products = set[int]()

    def put(instruction: Instruction) -> int:
        made.append(instruction)
        return len(made) - 1

    for number, i in enumerate(body.instructions):
        if number not in sums:
            at[number] = put(i.moved(at))
            continue
        groups, rest = sums[number]
        total = at[rest[0]] if rest else put(Instruction(Op.CONST, DType.INT32))
        for term in rest[1:]:
            total = put(Instruction(Op.ADD, DType.INT32, total, at[term]))
        for group in groups:
            total = put(Instruction(Op.MULACC, DType.INT32, at[group.left], at[group.right], total))
            products.add(total)
        at[number] = total
    needed = {at[len(body.instructions) - 1], *(at[r.extent] for r in body.reduce_ranges)}
    for number in reversed(range(len(made))):
        if number in needed:
            needed.update(made[number].values)
    fours = {at[number] for number in wide}
    if any(fours.intersection(made[n].values) for n in needed - fours - products):
        return body  # one of them is needed as a single byte, too
    order = {number: place for place, number in enumerate(sorted(needed))}
    instructions = tuple(made[number].moved(order) for number in sorted(needed))
    ranges = tuple(r._replace(extent=order[at[r.extent]]) for r in body.reduce_ranges)
    kept = frozenset(order[number] for number in fours & needed)
    return Quads(body.parameters, instructions, body.output_ranges, ranges, body.variables, wide=kept)
