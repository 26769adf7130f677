"""The instruction log: a line for all that comes, goes, is moved or fails, as text or as JSON; the newest are at hand.

    0.004812s | #0042 | RECV            | CLIENT 127.0.0.1:51234 | RUN              |   1904B | root=5e1c… inputs=3

Nothing that a stranger names can break a line: what is no plain word stands in quotes, as in JSON.
"""

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from eigentensor.errors import BindingError, ConfigError
from eigentensor.wire import OPTIONAL, Object, Size, word

ENTRIES = 10_000  #: of a log that are kept in memory
LETTERS = 200  #: of each text in an entry, at most: clients name things
_UNITS = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1))
_VALUES = dict(_UNITS)


class Event(StrEnum):
    """What happened; the first seven are of GT's log."""

    CONNECT = "CONNECT"
    RECV = "RECV"
    SEND = "SEND"
    WORKER_SEND = "WORKER_SEND"
    WORKER_RECV = "WORKER_RECV"
    DISCONNECT = "DISCONNECT"
    ERROR = "ERROR"
    PLAN = "PLAN"
    MOVE = "MOVE"
    FREE = "FREE"
    REPLAY = "REPLAY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Object, schema="eigentensor.cluster-log/1"):
    """A line of the instruction log of a cluster."""

    time: float
    """Seconds since the log began, to the microsecond."""
    sequence: Size
    """Its number, from 0 on."""
    event: Annotated[Event, word(*Event, read=Event)]
    """What happened."""
    who: str
    """Whose frame or segment it is about, such as `WORKER 3` or `CLIENT 127.0.0.1:51234`."""
    what: str
    """The kind of frame, or what a segment is called."""
    size: Annotated[Size | None, OPTIONAL] = None
    """Bytes that went with it, where any did."""
    detail: Mapping[str, str] = field(default_factory=dict)
    """More, by name; a `segment` is the number of a run on a worker."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", round(self.time, 6))


def format_entry(entry: Entry) -> str:
    """An entry as a line without its end, in columns."""
    detail = " ".join(f"{name}={_quoted(value, _WORD)}" for name, value in entry.detail.items())
    columns = (
        f"{entry.time:10.6f}s",
        f"#{entry.sequence:04d}",
        f"{entry.event:<15}",
        f"{_quoted(entry.who, _WORDS):<22}",
        f"{_quoted(entry.what, _WORDS):<16}",
        f"{_size(entry.size):>7}",
        detail,
    )
    return " | ".join(columns).rstrip()


def parse_entry(line: str) -> Entry:
    """The entry that `format_entry` wrote. Raises BindingError for a line of another form."""
    try:
        moment, number, event, who, what, size, detail = (column.strip() for column in line.split("|"))
        return Entry(
            time=float(_matched(r"(\d+\.\d+)s", moment)),
            sequence=int(_matched(r"#(\d{1,18})", number)),
            event=Event(event),
            who=_unquoted(who),
            what=_unquoted(what),
            size=_bytes(size),
            detail=_pairs(detail),
        )
    except ValueError:
        fix = "Give a log that a cluster has written: time, #number, event, who, what, size and detail, with | between."
        raise BindingError(f"no line of an instruction log: {line.strip()!r:.100}", fix=fix) from None


def parse_log(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries of a log's lines, empty ones left out. Raises BindingError, which names the line's number."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield parse_entry(line)
            except BindingError as error:
                raise BindingError(f"line {number}: {error.what}", fix=error.fix) from None


def load_log(path: str | Path) -> list[Entry]:
    """The newest log of a file, without a line that is still being written.

    Raises ConfigError where it cannot be read, BindingError for what is no log, with the line's number.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return newest(parse_log(line for line in file if line.endswith("\n")))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="Name the file of a log.") from None
    except UnicodeDecodeError:
        raise BindingError(f"{path} is no text", fix="Name the file of a log.") from None


def newest(entries: Iterable[Entry]) -> list[Entry]:
    """Those since the log was last begun: a file goes on where an earlier process has written, and counts anew."""
    kept: list[Entry] = []
    for entry in entries:
        if kept and entry.sequence <= kept[-1].sequence:
            kept.clear()
        kept.append(entry)
    return kept


def trace(entries: Sequence[Entry], *, seconds: float | None = None, count: int | None = None) -> list[Entry]:
    """Of entries in order those of the last so many seconds before the last one, of these the last so many."""
    since = entries[-1].time - seconds if entries and seconds is not None else 0.0
    recent = [entry for entry in entries if entry.time >= since]
    return recent if count is None else recent[max(len(recent) - count, 0) :]


class Log:
    """Takes entries from any thread: all go into the file, where there is one, and the last `ENTRIES` stay at hand."""

    def __init__(self, path: str | Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`path` is continued if it is there. Raises ConfigError where it cannot be written."""
        self._clock = clock
        self._began = clock()
        self._entries: deque[Entry] = deque(maxlen=ENTRIES)
        self._count = 0
        self._lock = Lock()
        self._file: int | None = None
        if path is not None:
            try:
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            except OSError as error:
                raise ConfigError(f"cannot write {path}: {error.strerror}", fix="Name another file.") from None

    def record(self, event: Event, who: str, what: str, size: int | None = None, **detail: object) -> Entry:
        """Writes down what happened. A file that can no longer be written is given up: that is an entry, too."""
        values = {name: _short(str(value)) for name, value in detail.items()}
        with self._lock:
            entry = self._added(event, _short(who), _short(what), size, values)
            if self._file is not None:
                try:
                    os.write(self._file, f"{format_entry(entry)}\n".encode())
                except OSError as error:
                    self._closed()
                    self._added(Event.ERROR, "LOG", "file", None, {"reason": error.strerror or str(error)})
        return entry

    def _added(self, event: Event, who: str, what: str, size: int | None, detail: Mapping[str, str]) -> Entry:
        seconds = self._clock() - self._began
        entry = Entry(time=seconds, sequence=self._count, event=event, who=who, what=what, size=size, detail=detail)
        self._entries.append(entry)
        self._count += 1
        return entry

    def entries(self, after: int = -1) -> list[Entry]:
        """Those at hand with a number above `after`, the oldest first."""
        with self._lock:
            first = self._count - len(self._entries)
            return list(self._entries)[max(after + 1 - first, 0) :]

    def close(self) -> None:
        """Closes the file; nothing is written any more."""
        with self._lock:
            self._closed()

    def _closed(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


#: What stands in a line as it is: a word of a detail, and words with single spaces between them in a column.
_WORD = re.compile(r'[^\s"|][^\s|]*')
_WORDS = re.compile(r'[^\s"|][^\s|]*( [^\s|]+)*')
_PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]\S*)')


def _short(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


def _quoted(text: str, plain: re.Pattern[str]) -> str:
    if plain.fullmatch(text) and text.isprintable():
        return text
    return json.dumps(text).replace("|", "\\u007c")


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    value: Any = json.loads(text)
    if not isinstance(value, str):
        raise ValueError(f"{text} is no text")
    return value


def _pairs(detail: str) -> dict[str, str]:
    """`name=value` by name. Raises ValueError where anything else stands between them."""
    pairs = {match[1]: _unquoted(match[2]) for match in _PAIR.finditer(detail)}
    if _PAIR.sub("", detail).strip():
        raise ValueError("no pairs")
    return pairs


def _size(size: int | None) -> str:
    """Bytes in the largest unit that they are a multiple of."""
    if size is None:
        return "-"
    return next(f"{size // value}{unit}" for unit, value in _UNITS if size % value == 0 and (size or unit == "B"))


def _bytes(size: str) -> int | None:
    if size == "-":
        return None
    unit = size.lstrip("0123456789")
    if unit not in _VALUES:
        raise ValueError(f"{size} is no size")
    return int(_matched(r"(\d{1,18})[A-Z]+", size)) * _VALUES[unit]


def _matched(pattern: str, text: str) -> str:
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise ValueError(f"{text} is not {pattern}")
    return match[1]
