"""What became of the instructions of one session, by their numbers: when each came, was begun and ended, and where."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from eigentensor.cluster.log import Entry, Event
from eigentensor.errors import BindingError
from eigentensor_cluster.schemas import ClusterTrace, TracedInstruction
from eigentensor_cluster.tables import table

ANSWERED = frozenset({"RUN", "GET"})  #: what is not done as soon as it came
FIX = "The newest 10,000 entries are at hand; the file of the log has all: `--log FILE`."


@dataclass(slots=True)
class _Life:
    """An instruction, as far as a log tells."""

    number: int
    what: str = ""
    program: str | None = None
    came: float | None = None
    begun: float | None = None
    ended: float | None = None
    size: int | None = None
    moved: int = 0
    times: int = 0
    error: str | None = None
    workers: dict[str, None] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    entries: list[Entry] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.error is not None:
            return "failed"
        if self.ended is not None or self.what not in ANSWERED:
            return "done"
        return "runs" if self.open else "waits"

    def begin(self, entry: Entry, is_new: bool) -> None:
        """It goes to a worker: anew, or to one more."""
        if is_new:
            self.times, self.size, self.ended = self.times + 1, None, None
            self.workers.clear()
            self.open.clear()
        self.begun = entry.time if self.begun is None else self.begun
        self.workers[_name(entry)] = None
        self.open.add(_name(entry))

    def end(self, entry: Entry) -> None:
        """A worker is done with it."""
        self.open.discard(_name(entry))
        self.size = entry.size if self.size is None else self.size + (entry.size or 0)
        if not self.open:
            self.ended = entry.time

    def traced(self) -> TracedInstruction:
        """As JSON has it."""
        return TracedInstruction(
            self.number, self.what, self.state, tuple(self.workers), self.times, self.moved, self.program, self.came,
            self.begun, self.ended, self.size, self.error,
        )  # fmt: skip


def traced(
    entries: Sequence[Entry], session: int | None = None, number: int | None = None, count: int | None = None
) -> tuple[ClusterTrace, list[Entry]]:
    """The instructions of a session in a log, by default of the newest one: all, the last so many, or the one with a
    number and the entries about it. Raises BindingError for what the log does not have."""
    names = (entry.who.partition("CLIENT ")[2] for entry in entries)
    numbers = {int(name) for name in names if name.isdecimal()}
    session = max(numbers, default=None) if session is None else session
    if session is None or session not in numbers:
        raise BindingError(f"no session{'' if session is None else f' {session}'} is in the log", fix=FIX)
    lives, member = _lives(entries, session), None
    if number is not None and number not in lives:
        raise BindingError(f"no instruction {number} of session {session} is in the log", fix=FIX)
    for entry in entries:
        if (entry.event, entry.who) == (Event.CONNECT, f"CLIENT {session}"):
            member = entry.detail.get("member")
    wanted = sorted(lives)[-(count or 0) :] if number is None else [number]
    found = ClusterTrace(session, tuple(lives[of].traced() for of in wanted), member)
    return found, [] if number is None else lives[number].entries


def _lives(entries: Iterable[Entry], session: int) -> dict[int, _Life]:
    client, lives, runs = f"CLIENT {session}", dict[int, _Life](), dict[str, _Life]()
    for entry in entries:
        segment, frame = entry.detail.get("segment", ""), entry.detail.get("frame", "")
        of: _Life | None = None
        if entry.who == client and frame.isdecimal():
            of = lives.setdefault(int(frame), _Life(int(frame)))
            _heard(of, entry)
        elif entry.event is Event.WORKER_SEND and entry.detail.get("session") == str(session) and frame.isdecimal():
            of = lives.setdefault(int(frame), _Life(int(frame), "RUN", entry.what))
            of.begin(entry, segment not in runs)
            runs[segment] = of
        elif segment in runs:
            of = runs[segment]
            if entry.event is Event.WORKER_RECV:
                of.end(entry)
            elif entry.event is Event.MOVE:
                of.moved += entry.size or 0
        elif entry.event is Event.DISCONNECT:
            for life in lives.values():
                life.open.discard(_name(entry))
        if of is not None:
            of.entries.append(entry)
    return lives


def _heard(life: _Life, entry: Entry) -> None:
    """What a client sent or was sent, or what is said of its run."""
    if entry.event is Event.RECV:
        life.what, life.came, life.size = entry.what, entry.time, entry.size
        life.program = entry.detail.get("root")
    elif entry.event is Event.SEND:
        life.ended, life.size = entry.time, entry.size
    elif entry.event is Event.ERROR:
        life.ended, life.error = entry.time, entry.detail.get("reason", "")


def _name(entry: Entry) -> str:
    return entry.who.removeprefix("WORKER ")


def lines(trace: ClusterTrace) -> Iterator[str]:
    """Instructions as a table, for people."""
    yield f"session {trace.session}" + ("" if trace.member is None else f", {trace.member}")
    yield from table(
        ("number", "what", "program", "came", "waited", "took", "bytes", "workers", "state"),
        [
            (
                str(i.number), i.what, i.program or "", "" if i.came is None else f"{i.came:.6f} s",
                _between(i.came, i.begun), _between(i.came if i.begun is None else i.begun, i.ended),
                "" if i.size is None else f"{i.size:,}", " ".join(i.workers),
                _outcome(i),
            )
            for i in trace.instructions
        ],
    )  # fmt: skip


def _outcome(of: TracedInstruction) -> str:
    if of.error is not None:
        return f"failed: {of.error}"
    return f"{of.state}, {of.times} times" if of.times > 1 else of.state


def _between(start: float | None, end: float | None) -> str:
    return "" if start is None or end is None else f"{(end - start) * 1000:.1f} ms"
