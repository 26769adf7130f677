"""A plan as a picture: the calls of a program in order, what each takes, and who reads what, as one SVG."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log10

from eigentensor.planner.measure import CallCost, Cost
from eigentensor.program.model import Program
from eigentensor.program.text import summary

ROW, TOP, LEFT, TEXT, BAR = 26, 64, 150, 430, 260  #: pixels
STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1b1f24 } .title { font-size: 15px; font-weight: bold }
.dim { fill: #68707a } .box { fill: #f3f5f8; stroke: #c3cad3 }
.edge { fill: none; stroke: #7c93b2; stroke-opacity: .55 } .measured { fill: #3f7fbf } .estimated { fill: #c9a23c }
"""


def picture(program: Program, cost: Cost, title: str) -> str:
    """An SVG document. Bars are as long as calls take; an arc on the left leads from a result to who reads it."""
    width = LEFT + TEXT + BAR + 120
    height = TOP + ROW * len(program.calls) + 40
    slowest = max((call.seconds for call in cost.calls), default=0.0)
    rows = [line for number, call in enumerate(cost.calls) for line in _row(program, number, call, slowest)]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    key = f"{_time(cost.seconds)} a run; blue: measured, yellow: estimated"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text class="title" x="20" y="26">{escape(title)}</text>',
            f'<text class="dim" x="20" y="46">{escape(key)}</text>',
            *_arcs(program),
            *rows,
            "</svg>\n",
        ]
    )


def _row(program: Program, number: int, call: CallCost, slowest: float) -> Iterator[str]:
    y = TOP + ROW * number
    bar = BAR * call.seconds / slowest if slowest else 0
    kind = "measured" if call.measured else "estimated"
    read, results = _names(program, number)
    label = f"{number} {summary(program.bodies[program.calls[number].body])}"
    yield f'<rect class="box" x="{LEFT}" y="{y}" width="{TEXT}" height="{ROW - 5}" rx="4"/>'
    yield f'<text x="{LEFT + 8}" y="{y + 15}">{escape(label)}</text>'
    yield f'<text class="dim" text-anchor="end" x="{LEFT + TEXT - 8}" y="{y + 15}">{escape(read)}</text>'
    yield f'<rect class="{kind}" x="{LEFT + TEXT + 10}" y="{y + 4}" width="{bar:.1f}" height="{ROW - 13}"/>'
    yield f'<text x="{LEFT + TEXT + 16 + bar:.1f}" y="{y + 15}">{_time(call.seconds)} {escape(results)}</text>'


def _arcs(program: Program) -> Iterator[str]:
    first = len(program.buffers)
    for number, call in enumerate(program.calls):
        for argument in sorted({a - first for a in call.arguments if a >= first}):
            start, end = (TOP + ROW * n + (ROW - 5) / 2 for n in (argument, number))
            reach = min(LEFT - 15, 12 + 34 * log10(1 + number - argument) * 2)
            yield (
                f'<path class="edge" d="M {LEFT} {start + 4} C {LEFT - reach:.1f} {start + 4},'
                f' {LEFT - reach:.1f} {end - 4}, {LEFT} {end - 4}"/>'
            )


def _names(program: Program, number: int) -> tuple[str, str]:
    """Named tensors that a call reads, and results of the program that it gives."""
    own = len(program.buffers) + number
    arguments = [a for a in program.calls[number].arguments if a < len(program.buffers)]
    read = dict.fromkeys(program.buffers[a].name or "constant" for a in arguments)
    return _short(list(read)), _short([f"→ {r.name}" for r in program.results if r.buffer == own])


def _short(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= 24 else f"{text[:23]}…"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-2 else f"{seconds * 1e3:,.1f} ms"
