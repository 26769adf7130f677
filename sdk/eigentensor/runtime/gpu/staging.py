"""A reduction some steps at a time: what they read is computed or copied into memory that a group shares."""

from collections.abc import Callable, Sequence
from math import prod

from eigentensor.program.ops import Op
from eigentensor.runtime.bodies.expressions import MEMORY, STORED, register
from eigentensor.runtime.gpu.grid import Copy, bytes_of_dots, cone_of, copied, side_of, staged
from eigentensor.runtime.gpu.item import Item

Finish = Callable[[], None]  #: writes what is done with the values of a step


class Staging(Item):
    """An item whose group stages what it needs of the next steps of a reduction."""

    def chunks(self, number: int, ranges: tuple[int, ...], inside: Sequence[int], finish: Finish) -> None:
        """The loops of a reduction as one, some steps at a time: the group stages what they need, then all take it.

        `inside` are the values of a step; what of them is not staged, each item computes; `finish` follows.
        """
        kept = sorted(staged(self.analysis, self.grid, number))
        own = [n for n in inside if n not in kept]
        if self.grid.ahead:
            self._copying(number, ranges, kept, own, finish)
            return
        chunk, total = self.grid.chunk, prod(self.analysis.extents[r] for r in ranges)
        for v in kept:
            self.line(f"LOCAL {self._kind(v)} t{number}v{v}[{chunk * self.pitch(v)}];")
        with self.block(f"for (ix k0 = 0; k0 < {total}; k0 += {chunk})"):
            for side in "rc":
                of = [v for v in kept if side_of(self.analysis, self.grid, v) == side]
                if of:
                    self._stage(number, side, of, ranges, total)
            self.line("WAIT;")
            most = f"({total} - k0 < {chunk} ? (i32)({total} - k0) : {chunk})" if total % chunk else chunk
            with self.block(f"for (i32 k = 0; k < {most}; k++)"):
                self._step(number, ranges, kept, own, finish)
            self.line("WAIT;")

    def pitch(self, v: int) -> int:
        """Distance of steps in shared memory; not a power of two: neighbours that stage steps hit different banks."""
        return self.span(side_of(self.analysis, self.grid, v)) + 1

    def _kind(self, v: int) -> str:
        return register(self.body.instructions[v].dtype, False)

    def _step(
        self, number: int, ranges: tuple[int, ...], kept: Sequence[int], own: Sequence[int], finish: Finish
    ) -> None:
        """One step: its values as constants, staged or computed, then what is done with them."""
        if own:
            self.counters("j", ranges, "k0 + k", self.analysis.extents, "")
        for v in sorted([*kept, *own]):
            if v in own:
                self.define(v)
                continue
            side = side_of(self.analysis, self.grid, v)
            for n, suffix in enumerate(self.suffixes(v)):
                place = f"i{side} + {n * self.step(side)}" if side else "0"
                self.line(f"const {self._kind(v)} v{v}{suffix} = {self._staged(number, v, place)};")
        finish()

    def _staged(self, number: int, v: int, place: str) -> str:
        """The value of step k at a place along its side."""
        if not self.grid.ahead:
            return f"t{number}v{v}[k * {self.pitch(v)} + {place}]"
        kind, at = MEMORY[self.body.instructions[v].dtype], self._copy(v).at(self.grid, "k", place)
        return f"enter_{kind}(t{number}v{v}[s][{at}])"

    def _stage(self, number: int, side: str, of: list[int], ranges: tuple[int, ...], total: int) -> None:
        """The items of the group share the values of one side for the steps from k0 on, and put them where all see."""
        chunk, span, first = self.grid.chunk, self.span(side), self.axes(side)[-1]
        cone = sorted({n for v in of for n in cone_of(self.analysis, v)})
        loads = [self.body.instructions[n].b for n in cone if self.body.instructions[n].op is Op.LOAD]
        along = sum(self.analysis.strides(ranges[-1])[e] == 1 for e in loads)
        across = sum(self.analysis.strides(first)[e] == 1 for e in loads)
        k, place = (f"e % {chunk}", f"e / {chunk}") if along > across else (f"e / {span}", f"e % {span}")
        with self.block(f"for (i32 e = item; e < {chunk * span}; e += {self.grid.items})"):
            self.line(f"const i32 k = {k}, place = {place};")
            at = f"(k0 + k < {total - 1} ? k0 + k : {total - 1})" if total % chunk else "k0 + k"
            self._alone(side, "place", ranges, at, cone)
            for v in of:
                self.line(f"t{number}v{v}[k * {self.pitch(v)} + place] = v{v}s;")
            self.alone = ""

    def _alone(self, side: str, place: str, ranges: tuple[int, ...], at: str, values: Sequence[int]) -> None:
        """One instance of values at a place along a side and a step, until `alone` is taken back."""
        self.alone = "s"
        self.counters("j", ranges, at, self.analysis.extents, "s")
        if side:
            self.position(side, f"{side}0 + {place}", "s")
        for n in values:
            if self.suffixes(n) == ["s"] and self.body.instructions[n].op is not Op.CONST:
                self.define(n)

    # Copies that go on while the group computes

    def _copying(
        self, number: int, ranges: tuple[int, ...], kept: Sequence[int], own: Sequence[int], finish: Finish
    ) -> None:
        """As many chunks are under way as the grid says: each is taken up where the one before it has been used."""
        chunk, ahead, total = self.grid.chunk, self.grid.ahead, prod(self.analysis.extents[r] for r in ranges)
        for v in kept:
            kind, size = STORED[self.body.instructions[v].dtype], self._copy(v).elements(self.grid)
            self.line(f"LOCAL ALIGNED {kind} t{number}v{v}[{ahead}][{size}];")
        with self.block(f"for (ix d = 0; d < {ahead - 1}; d++)"):
            self._fetch(number, ranges, kept, f"d * {chunk}")
            self.line("SENT;")
        with self.block(f"for (ix k0 = 0, s = 0; k0 < {total}; k0 += {chunk}, s = s == {ahead - 1} ? 0 : s + 1)"):
            self.line(f"ARRIVED({ahead - 2});")
            self.line("WAIT;")
            with self.block(f"if (k0 < {total - (ahead - 1) * chunk})"):
                self.line(f"const ix d = s == 0 ? {ahead - 1} : s - 1;")
                self._fetch(number, ranges, kept, f"k0 + {(ahead - 1) * chunk}")
            self.line("SENT;")
            with self.block(f"if (item < {self.grid.tall * self.grid.wide})" if self.grid.crew > 1 else ""):
                self.line("UNROLL")
                if dots := bytes_of_dots(self.analysis, self.grid, number):
                    self._dots(number, dots)
                    return
                with self.block(f"for (i32 k = 0; k < {chunk}; k++)"):
                    self._step(number, ranges, kept, own, finish)

    def _dots(self, number: int, loads: tuple[int, int]) -> None:
        """The steps of a chunk of a sum of products of bytes, four at a time."""
        with self.block(f"for (i32 k = 0; k < {self.grid.chunk}; k += 4)"):
            for v in sorted(set(loads)):
                copy = self._copy(v)
                for n, suffix in enumerate(self.suffixes(v)):
                    place = f"i{copy.side} + {n * self.step(copy.side)}" if copy.side else "0"
                    at = copy.at(self.grid, "k", place)
                    self.line(f"const u32 v{v}{suffix} = *(LOCAL_OF u32 *)&t{number}v{v}[s][{at}];")
            for suffix in self.suffixes(number):
                total, (first, second) = f"v{number}{suffix}", (self.value(v, suffix) for v in loads)
                self.line(f"{total} = dot_i8_i8({first}, {second}, {total});")

    def _fetch(self, number: int, ranges: tuple[int, ...], kept: Sequence[int], start: str) -> None:
        """Starts the copies of what the chunk from a step on reads."""
        for v in kept:
            instruction = self.body.instructions[v]
            copy = self._copy(v)
            count = self.grid.chunk * copy.span // copy.vector
            with self.block(f"for (i32 e = item; e < {count}; e += {self.grid.items})"):
                k, place = copy.order(self.grid, "e")
                self.line(f"const i32 k = {k}, place = {place};")
                self._alone(copy.side, "place", ranges, f"{start} + k", cone_of(self.analysis, v)[:-1])
                to = f"&t{number}v{v}[d][{copy.at(self.grid, 'k', 'place')}]"
                of = f"p{instruction.a} + {self.value(instruction.b, 's')}"
                self.line(f"FETCH({copy.vector * instruction.dtype.size}, {to}, {of});")
                self.alone = ""

    def _copy(self, v: int) -> Copy:
        copy = copied(self.analysis, self.grid, v)
        assert copy is not None  # only such values are staged
        return copy
