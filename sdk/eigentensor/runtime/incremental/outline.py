"""What is known of a program before anything changes: how much work it is, and what later calls read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from eigentensor.program.bounds import prove
from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Program
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.program.structure import below


class Work(NamedTuple):
    """Calls, and evaluations of instructions as `program.cost` counts them."""

    calls: int
    evaluations: int


class Live(NamedTuple):
    """Buffers that may change and that a call or later ones read, and how many elements they have."""

    buffers: tuple[int, ...]
    elements: int


class Product(NamedTuple):
    """In a body that stores a sum of products: a factor that may be zero, and the load that it is multiplied with."""

    factor: int
    load: int


@lru_cache(maxsize=1024)
def products(body: Body) -> tuple[Product, ...]:
    """How a body that stores a sum of products makes them, where one factor is a load that the other does not use.

    Where the other factor is a zero, and the load finite, the product is a zero: adding it to a sum that is not zero
    changes no bit of it, and of a sum that is zero the sign at most.
    """
    last = body.instructions[-1]
    if last.op is not Op.REDUCE_MULACC:
        return ()
    extents = (e for e, r in zip(prove(body).extents, body.reduce_ranges, strict=True) if r.reduction == last.c)
    if any(low != high for low, high in extents):
        return ()
    pairs = (Product(last.a, last.b), Product(last.b, last.a))
    return tuple(p for p in pairs if body.instructions[p.load].op is Op.LOAD and p.load not in below(body, p.factor))


@dataclass(frozen=True)
class Outline:
    """A program, the numbers of the tensors that never change, and of those of them that have no zeros.

    `spreading` are calls, found as they run, of whose whole results all differs that can: comparing these is in vain.
    """

    program: Program
    closed: frozenset[int] = frozenset()
    nonzero: frozenset[int] = frozenset()
    spreading: set[int] = field(default_factory=set)

    @cached_property
    def evaluations(self) -> tuple[int, ...]:
        """Of each call."""
        each = [body_cost(body).evaluations for body in self.program.bodies]
        return tuple(each[call.body] for call in self.program.calls)

    def products(self, number: int) -> Iterator[Product]:
        """How a call makes a sum of products, where a factor may be a zero."""
        _, arguments, _ = self.program.calls[number]
        body = self.program.bodies[self.program.calls[number].body]
        for product in products(body):
            factor = body.instructions[product.factor]
            alone = factor.op is Op.LOAD and factor.c == NO_GUARD
            if not alone or arguments[factor.a - 1] not in self.nonzero:
                yield product

    @cached_property
    def multiplied(self) -> frozenset[int]:
        """The buffers that are multiplied with what may be a zero."""
        buffers = set[int]()
        for number, call in enumerate(self.program.calls):
            loads = self.program.bodies[call.body].instructions
            buffers.update(call.arguments[loads[product.load].a - 1] for product in self.products(number))
        return frozenset(buffers)

    @property
    def work(self) -> Work:
        """That of a full run of one iteration."""
        return Work(len(self.evaluations), sum(self.evaluations))

    @cached_property
    def live(self) -> tuple[Live, ...]:
        """What is live before each call."""
        program, first = self.program, len(self.program.buffers)
        last = {argument: number for number, call in enumerate(program.calls) for argument in call.arguments}
        may_change = set(range(first)).difference(self.closed)
        current, live = may_change.intersection(last), list[Live]()
        for number, call in enumerate(program.calls):
            live.append(Live(tuple(sorted(current)), sum(program.parameter(b).elements for b in current)))
            if call.variables or not may_change.isdisjoint(call.arguments):
                may_change.add(first + number)
                current |= {first + number}.intersection(last)
            current -= {argument for argument in call.arguments if last[argument] == number}
        return tuple(live)
