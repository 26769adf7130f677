"""Calls of bodies on arrays that stay where they are, each with its code, in tables for the driver."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body
from eigentensor.runtime.build.kernels import Compiler, prepare
from eigentensor.runtime.cpu.device import STEP, Code, Driver, address, driver, empty, load, units
from eigentensor.runtime.cpu.table import SHARED_CALL, evaluations, grain

Values = NDArray[Any]


class BodyCode(NamedTuple):
    """The code of a body, how many units a call of it has, and how many evaluations of instructions."""

    kernel: Code
    units: int
    evaluations: int


class BoundCall(NamedTuple):
    """A call on arrays, the first of which it writes, with these of the values of variables."""

    code: BodyCode
    arrays: tuple[Values, ...]
    variables: tuple[int, ...]


class Codes:
    """The code of bodies, compiled as they come; of those that write no element there is none."""

    def __init__(self, compiler: Compiler, cache: Cache) -> None:
        self.compiler, self.cache = compiler, _Unpruned(cache.folder)
        self.bodies: dict[Body, BodyCode] = {}

    def compile(self, bodies: Iterable[Body], cache: Cache | None = None) -> None:
        """Of these bodies; by default without a look through the folder of the cache."""
        kernels = prepare(bodies, cache or self.cache, self.compiler)
        self.driver = driver(kernels.driver)
        for body, code in kernels.bodies.items():
            if code is not None:
                kernel = load(code)
                self.bodies[body] = BodyCode(kernel, units(kernel), evaluations(body))

    def result(self, body: Body, arrays: Sequence[Values], values: Sequence[int], threads: int) -> Values:
        """What a compiled body gives on these flat arrays and values of its variables, in new memory."""
        dtype, elements = body.parameters[0]
        written = empty(STORAGE[dtype], elements)
        read = [array if array.flags.aligned else array.copy() for array in arrays]
        call = BoundCall(self.bodies[body], (written, *read), tuple(range(len(values))))
        CallTable([call], self.driver, threads).run(values, [0], SHARED_CALL)
        return written


class _Unpruned(Cache):
    """A cache that does not look through its folder each time that a kernel is new."""

    def prune(self, most: int = 0) -> None:
        pass


class CallTable:
    """A table for the driver."""

    def __init__(self, calls: Sequence[BoundCall], driver: Driver, threads: int) -> None:
        self.calls, self.driver, self.threads = calls, driver, threads
        self.pointers = np.array([address(array) for call in calls for array in call.arrays], np.uint64)
        self.variables = [v for call in calls for v in call.variables]
        self.values, self.table = np.zeros(len(self.variables), np.int64), np.zeros(len(calls), STEP)
        pointer, value = address(self.pointers), address(self.values)
        for row, (code, arrays, variables) in zip(self.table, calls, strict=True):
            row["kernel"], row["buffers"], row["variables"] = code.kernel.address, pointer, value
            row["units"] = code.units
            row["grain"] = grain(code.units, code.evaluations, threads)
            pointer += 8 * len(arrays)
            value += 8 * len(variables)
        are_shared = (self.table["grain"] < self.table["units"]).tolist()
        self.shareable = [call.code.evaluations * shared for call, shared in zip(calls, are_shared, strict=True)]

    def run(self, values: Sequence[int], rows: Sequence[int], shared: int) -> None:
        """Some of the calls, in order; with helpers if those that they can share evaluate more than `shared`."""
        self.values[:] = [values[v] for v in self.variables]
        work = sum(self.shareable[row] for row in rows)
        self.driver.run(self.table[rows], self.threads if work > shared else 1)
