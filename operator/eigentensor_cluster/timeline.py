"""What each worker did when, as a picture: a log's segments as bars over time, one row a worker, as one SVG."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from eigentensor.cluster.log import Entry, Event

ROW, TOP, LEFT, WIDTH, BAR = 34, 74, 170, 1000, 22  #: pixels
TICKS = 8  #: about so many times are written along the axis
BARS = 20_000  #: of a picture, at most: the last ones
COLOURS = ("#3f7fbf", "#c9a23c", "#5a9e6f", "#b4584f", "#7a68a6", "#4aa3a2", "#c07ab8", "#8a8f98")
MARKS = {Event.ERROR: "#c62828", Event.REPLAY: "#ef6c00", Event.DISCONNECT: "#1b1f24"}
STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1b1f24 } .title { font-size: 15px; font-weight: bold }
.dim { fill: #68707a } .row { fill: #f3f5f8 } .grid { stroke: #dfe4ea } .open { fill-opacity: .45 }
"""


class Segment(NamedTuple):
    """A run of instructions on a worker, from when it was sent to when its end was known, in seconds.

    `is_open`: the log ends before it does.
    """

    worker: str
    name: str
    number: str
    start: float
    end: float
    is_open: bool


def segments(entries: Sequence[Entry]) -> list[Segment]:
    """The segments of a log, in the order in which they were sent.

    One is what went to a worker with a `segment` number until what came back from there with the same, or until the
    worker was gone.
    """
    last = entries[-1].time if entries else 0.0
    begun: dict[tuple[str, str], Entry] = {}
    ends: dict[int, float] = {}
    sent: list[Entry] = []
    for entry in entries:
        key = entry.who, entry.detail.get("segment", "")
        if entry.event is Event.WORKER_SEND and key[1]:
            begun[key] = entry
            sent.append(entry)
        elif entry.event is Event.WORKER_RECV and key in begun:
            ends[begun.pop(key).sequence] = entry.time
        elif entry.event is Event.DISCONNECT:
            for gone in [key for key in begun if key[0] == entry.who]:
                ends[begun.pop(gone).sequence] = entry.time
    return [
        Segment(e.who, e.what, e.detail["segment"], e.time, ends.get(e.sequence, last), e.sequence not in ends)
        for e in sent
    ]


def timeline(entries: Sequence[Entry], title: str = "segments by worker") -> str:
    """An SVG document of a log's entries in order; marks are errors, replays, lost workers and hot segments."""
    bars = segments(entries)
    shown = bars[-BARS:]
    marks = [entry for entry in entries if entry.event in MARKS]
    workers = list(dict.fromkeys([bar.worker for bar in bars] + [e.who for e in entries if _is_worker(e)]))
    start = min((bar.start for bar in shown), default=0.0)
    end = max([bar.end for bar in shown] + [start + 1e-6])
    names = dict.fromkeys(bar.name for bar in shown)
    colours = {name: COLOURS[min(n, len(COLOURS) - 1)] for n, name in enumerate(names)}
    height = TOP + ROW * len(workers) + 40
    total = LEFT + WIDTH + 40
    scale = _Scale(start, end)
    rows = {worker: TOP + ROW * n for n, worker in enumerate(workers)}
    size = f'viewBox="0 0 {total} {height}" width="{total}" height="{height}"'
    key = f"{len(shown):,} of {len(bars):,} segments, {len(workers)} workers, {_time(end - start)}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{STYLE}</style>",
            f'<rect width="{total}" height="{height}" fill="#fff"/>',
            f'<text class="title" x="20" y="26">{_text(title)}</text>',
            f'<text class="dim" x="20" y="46">{key}</text>',
            *_legend(colours),
            *_grid(scale, rows),
            *(_bar(bar, scale, rows[bar.worker], colours[bar.name]) for bar in shown),
            *(_mark(e, scale, rows[e.who]) for e in marks if e.who in rows and start <= e.time <= end),
            "</svg>\n",
        ]
    )


def _is_worker(entry: Entry) -> bool:
    return entry.event in (Event.WORKER_SEND, Event.WORKER_RECV)


class _Scale(NamedTuple):
    start: float
    end: float

    def x(self, seconds: float) -> float:
        """Pixels from the left."""
        return LEFT + WIDTH * (seconds - self.start) / (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Round times along the axis, in seconds."""
        rough = (self.end - self.start) / TICKS
        power = 10.0 ** floor(log10(rough))
        step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
        for number in range(ceil(self.start / step), floor(self.end / step) + 1):
            yield number * step


def _legend(colours: dict[str, str]) -> Iterator[str]:
    for number, (name, colour) in enumerate(list(colours.items())[: len(COLOURS)]):
        x = LEFT + number * WIDTH // len(COLOURS)
        yield f'<rect x="{x}" y="54" width="10" height="10" fill="{colour}"/>'
        yield f'<text class="dim" x="{x + 14}" y="63">{_text(name, 14)}</text>'


def _grid(scale: _Scale, rows: dict[str, int]) -> Iterator[str]:
    bottom = TOP + ROW * len(rows)
    for worker, y in rows.items():
        yield f'<rect class="row" x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW - 4}"/>'
        yield f'<text x="20" y="{y + 20}">{_text(worker, 20)}</text>'
    for tick in scale.ticks():
        x = scale.x(tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text class="dim" text-anchor="middle" x="{x:.1f}" y="{bottom + 20}">{_time(tick)}</text>'


def _bar(bar: Segment, scale: _Scale, y: int, colour: str) -> str:
    left, right = scale.x(bar.start), scale.x(bar.end)
    about = f"{bar.name}, segment {bar.number}: {_time(bar.end - bar.start)} from {_time(bar.start)}"
    kind = ' class="open"' if bar.is_open else ""
    box = f'x="{left:.2f}" y="{y + 4}" width="{max(right - left, 0.5):.2f}" height="{BAR}"'
    return f'<rect{kind} {box} fill="{colour}"><title>{_text(about)}</title></rect>'


def _mark(entry: Entry, scale: _Scale, y: int) -> str:
    x, colour = scale.x(entry.time), MARKS[entry.event]
    about = " ".join([entry.event, entry.what, *(f"{name}={value}" for name, value in entry.detail.items())])
    line = f'x1="{x:.2f}" x2="{x:.2f}" y1="{y}" y2="{y + ROW - 4}" stroke="{colour}" stroke-width="2"'
    return f"<line {line}><title>{_text(about)}</title></line>"


def _text(text: str, most: int = 200) -> str:
    """Text for XML, which has no control characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return escape(plain if len(plain) <= most else f"{plain[: most - 1]}…")


def _time(seconds: float) -> str:
    return f"{seconds:,.3f} s" if seconds >= 1 else f"{seconds * 1e3:,.3f} ms"
