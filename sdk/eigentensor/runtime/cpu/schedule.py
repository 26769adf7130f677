"""Which loops of a body run side by side. All give the same bits: each accumulator takes its terms in order."""

from dataclasses import dataclass, fields, replace

from eigentensor.program.model import Body


@dataclass(frozen=True, slots=True)
class Target:
    """What a device can hold: float32 lanes of a vector register, and vector registers."""

    lanes: int
    registers: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A tile of `rows` × `columns` vectors of `lanes` elements; the other output axes are loops around it, in order.

    `joined` are output axes, ascending, that become one loop with the axis before them; axes and values below are those
    of the body that `rewriting.join` makes. Where an extent is no multiple of the tile, the last tile overlaps the one
    before and computes the same again. The innermost loop around the tile is that over rows, or that over the axis
    `inner`. `packed` are values kept for several steps of their reduction while the innermost loop runs: for all, or
    for `panel` steps of the reduction's outermost loop, between which accumulators wait in memory; then the innermost
    loop is that over rows, or without them that over the vector's axis. `block` is how much of that loop's axis one
    thread takes at least; 0 stands for all. With `stripes` the rows of a tile stand a `rows`-th of the axis apart: what
    is read along each goes on in memory from tile to tile, as processors that fetch ahead expect.

    `str(schedule)` is its only text, which `parse` reads: it names what differs from the plain loops, as in
    `vector=1 lanes=16 columns=4 row=0 rows=6 packed=12 panel=256`.
    """

    joined: tuple[int, ...] = ()
    vector: int | None = None
    lanes: int = 1
    columns: int = 1
    row: int | None = None
    rows: int = 1
    inner: int | None = None
    packed: frozenset[int] = frozenset()
    panel: int = 0
    block: int = 0
    stripes: int = 0

    def __str__(self) -> str:
        plain = Schedule()
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        parts = [f"{name}={_text(value)}" for name, value in named.items() if value != getattr(plain, name)]
        return " ".join(parts) or "plain"

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """The schedule of a text. Raises ValueError for anything that no schedule is written as."""
        arguments: dict[str, object] = {}
        for part in [] if text == "plain" else text.split(" "):
            name, _, value = part.partition("=")
            numbers = [int(number) for number in value.split(",")]
            arguments[name] = {"joined": tuple, "packed": frozenset}.get(name, _only)(numbers)
        if set(arguments) - {f.name for f in fields(cls)} or str(schedule := cls(**arguments)) != text:  # type: ignore[arg-type]
            raise ValueError(f"not a schedule: {text!r}")
        return schedule


def _text(value: int | tuple[int, ...] | frozenset[int]) -> str:
    return str(value) if isinstance(value, int) else ",".join(map(str, sorted(value)))


def _only(numbers: list[int]) -> int:
    (number,) = numbers
    return number


def apart(body: Body, schedule: Schedule) -> Schedule:
    """A schedule like this one under which no element is computed twice: the second time its operand may be gone.

    The body is that whose axes are joined already.
    """
    rows = 1
    if schedule.row is not None:
        extent = body.output_ranges[schedule.row]
        rows = max(size for size in range(1, schedule.rows + 1) if extent % size == 0)
    schedule = replace(schedule, rows=rows)
    if schedule.vector is None or body.output_ranges[schedule.vector] % (schedule.lanes * schedule.columns) == 0:
        return schedule
    if body.output_ranges[schedule.vector] % schedule.lanes == 0:
        return replace(schedule, columns=1)
    return Schedule(schedule.joined, row=schedule.row, rows=rows)
