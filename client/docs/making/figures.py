"""Figures, drawn from what the code computes. A line `@figure NAME` of a page stands for one. Colours come from the
site's style sheet, so that a figure fits both schemes."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from docs.making.sections import ROOT
from eigentensor import merkle
from eigentensor.economics import Parameters, detection, stake
from eigentensor.numerics.dtypes import DType
from support.programs.worked_examples import layer

_FIGURE = re.compile(r"^@figure (\w+)$", re.MULTILINE)
_WAD = 10**18
_WIDTH = 720


def drawn(text: str) -> str:
    """A page's text with its figures. Raises KeyError for one that there is not."""
    return _FIGURE.sub(lambda match: FIGURES[match[1]](), text)


def program() -> str:
    """The worked example: what its calls read and write."""
    made = layer().program
    names = [f"{buffer.role.name.lower()} {buffer.name}" for buffer in made.buffers]
    shapes = ["×".join(map(str, buffer.shape)) for buffer in made.buffers]
    places = {n: (90 + 180 * n, 40) for n in range(len(names))}
    parts, count = [], len(names)
    for number, call in enumerate(made.calls):
        x, y = 270 + 120 * number, 140 + 90 * number
        places[count + number] = (x, y)
        parts += [_arrow(places[argument], (x, y)) for argument in call.arguments]
    parts += [_box(*places[n], f"%{n} {names[n]}", f"float32 {shapes[n]}", "quiet") for n in range(count)]
    for number, call in enumerate(made.calls):
        body = made.bodies[call.body]
        loops = "×".join(map(str, body.output_ranges))
        says = f"body {call.body}, loops {loops}, {len(body.instructions)} instructions"
        parts.append(_box(*places[count + number], f"%{count + number} call {number}", says, "strong"))
    x, y = places[count + len(made.calls) - 1]
    parts += [_arrow((x, y), (x, y + 90)), _box(x, y + 90, "output", "float32 2×4", "quiet")]
    return _svg(y + 125, parts, "max(x @ w + b, 0) as a program: three buffers, two calls, one output.")


def roots() -> str:
    """The tree over a tensor of eight leaves, with what opens one element."""
    data = np.arange(8 * 256, dtype="<f4")
    levels = [list(map(bytes, merkle.leaf_hashes(data)))]
    while len(levels[-1]) > 1:
        levels.append([merkle.node(a, b) for a, b in zip(levels[-1][::2], levels[-1][1::2], strict=True)])
    element, parts = 1300, []
    leaf = element * 4 // 1024
    siblings = {(level, leaf >> level ^ 1) for level in range(3)}
    onto = {(level, leaf >> level) for level in range(4)}

    def place(level: int, index: int) -> tuple[int, int]:
        return round((index + 0.5) * (_WIDTH / len(levels[level]))), 290 - 75 * level

    for level in range(3):
        for index in range(len(levels[level])):
            parts.append(_line(place(level, index), place(level + 1, index // 2), "edge"))
    for level, nodes in enumerate(levels):
        for index, value in enumerate(nodes):
            style = "strong" if (level, index) in onto else "accent" if (level, index) in siblings else "quiet"
            under = f"{256 * index}–{256 * index + 255}" if not level else ""
            parts.append(_box(*place(level, index), value.hex()[:6], under, style, width=84))
    x, y = place(3, 0)
    parts.append(_text(x + 56, y - 4, f"tensor root {merkle.tensor_root(DType.FLOAT32, data).hex()[:6]}…", "start"))
    parts.append(_text(x + 56, y + 13, "of this, dtype and number of elements", "start", small=True))
    return _svg(
        335, parts, f"2,048 float32 in eight leaves of 1 KiB. Element {element} is in leaf {leaf}: that leaf and the "
        "three framed siblings give the root, and no other leaf does.",
    )  # fmt: skip


def checks() -> str:
    """How soon somebody who is wrong is seen."""
    lines = {}
    for rate in (5, 20, 50):
        a = detection(rate * _WAD // 100, 1, _WAD // 3) / _WAD
        lines[f"checked {rate} %"] = [(n, 100 * (1 - (1 - a) ** n)) for n in range(51)]
    return _chart(
        lines, ("wrong tasks", "seen by a stranger, %"), (50, 100),
        "The chance that at least one wrong task was re-executed by somebody else, where the executor's own seats are "
        "a third of all. One that is seen costs the stake of that task.",
    )  # fmt: skip


def games() -> str:
    """The dispute of a step among 2^14 calls, transaction by transaction."""
    gas = {name: int(text) for name, text in json.loads((_SNAPSHOTS / "dispute-deep.json").read_text()).items()}
    moves = [
        ("C", "open"), ("E", "publish, 17"),
        *[("C", "pickNode of 32, of the trace"), ("E", "descend to 32")] * 2, ("C", "pickCall"),
        *[("E", "descend to 64"), ("C", "pickNode of 64")] * 2, ("E", "showLeaf, a reduction"), ("C", "pickReduction"),
        ("E", "claimBorders, 63"), ("C", "pickSpan"), ("E", "claimBorders, 63"), ("C", "judgeSpan, two loads"),
    ]  # fmt: skip
    # Of moves of one kind the last one's gas is known.
    if len(moves) != gas["transactions"] or abs(sum(gas[name] for _, name in moves) - gas["all"]) > 20_000:
        raise ValueError("the snapshot is of another course of the game")
    parts, step = [], 22
    for number, (side, name) in enumerate(moves):
        y, width = 16 + step * number, gas[name] / 700
        style = "strong" if side == "E" else "accent"
        parts.append(f'<rect class="et-{style}" x="250" y="{y - 11}" width="{width:.0f}" height="15" rx="2"/>')
        parts.append(_text(242, y + 1, f"{number + 1}  {name.partition(',')[0]}", "end", small=True))
        parts.append(_text(256 + round(width), y + 1, f"{gas[name]:,}", "start", small=True))
    return _svg(
        16 + step * len(moves), parts,
        f"{gas['all']:,} gas in {len(moves)} transactions: from the claim that a result is wrong to the contract's "
        "verdict on one step of it, among 2¹⁴ calls. Filled: the executor.",
    )  # fmt: skip


def stakes() -> str:
    """What a conviction takes, by how often is checked."""
    network = json.loads((ROOT / "contracts" / "networks" / "local.json").read_text())
    parameters, lines = Parameters.from_json(network["parameters"]), {}
    for verifiers in (1, 2, 4):
        rates = [5, *range(6, 101)]
        asked = [stake(parameters, _WAD, 0, rate * _WAD // 100, verifiers) / _WAD for rate in rates]
        lines[f"{verifiers} verifier{'s' * (verifiers > 1)}"] = list(zip(map(float, rates), asked, strict=True))
    return _chart(
        lines, ("checked, %", "stake, in prices"), (100, 80),
        "The stake that is locked for a task, in multiples of its price: what is checked seldom has more at stake, so "
        "that a lie loses on average. Nothing else at risk; the local network's parameters.",
    )  # fmt: skip


#: By the names that pages use.
FIGURES: Mapping[str, Callable[[], str]] = {
    "program": program, "roots": roots, "checks": checks, "games": games, "stake": stakes,
}  # fmt: skip
_SNAPSHOTS = ROOT / "contracts" / "snapshots"


def _chart(
    lines: Mapping[str, Sequence[tuple[float, float]]], names: tuple[str, str], ends: tuple[int, int], says: str
) -> str:
    """Lines over two axes from 0 to their ends; what is above the end is cut."""
    left, top, width, height = 64, 12, 500, 260

    def place(x: float, y: float) -> tuple[float, float]:
        return left + width * x / ends[0], top + height * (1 - min(y, ends[1]) / ends[1])

    parts = []
    for part in range(6):
        x, y = ends[0] * part / 5, ends[1] * part / 5
        parts += [
            _line(place(0, y), place(ends[0], y), "grid"),
            _text(left - 8, place(0, y)[1] + 4, f"{y:g}", "end", small=True),
        ]
        parts.append(_text(place(x, 0)[0], top + height + 18, f"{x:g}", "middle", small=True))
    for number, (name, points) in enumerate(lines.items()):
        shown = [point for point, after in zip(points, [*points[1:], points[-1]], strict=True) if after[1] <= ends[1]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in shown))
        parts.append(f'<polyline class="et-curve et-curve-{number}" points="{path}"/>')
        parts.append(
            _line(
                (left + width + 14, 24 + 22 * number), (left + width + 34, 24 + 22 * number), f"curve et-curve-{number}"
            )
        )
        parts.append(_text(left + width + 40, 28 + 22 * number, name, "start", small=True))
    parts.append(_text(left + width / 2, top + height + 38, names[0], "middle", small=True))
    turned = f'transform="translate(16 {top + height / 2:.0f}) rotate(-90)"'
    parts.append(f'<text class="et-small" text-anchor="middle" {turned}>{names[1]}</text>')
    return _svg(top + height + 48, parts, says)


def _box(x: float, y: float, title: str, under: str, style: str, width: int = 0) -> str:
    width = width or max(96, 7 * max(len(title), len(under)) + 16)
    height = 42 if under else 28
    place = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width}" height="{height}"'
    on = " et-on" if style == "strong" else ""
    lines = [("title", -2 if under else 4, title), *([("small", 14, under)] if under else [])]
    texts = (
        f'<text class="et-{kind}{on}" x="{x:g}" y="{y + below:g}" text-anchor="middle">{escape(text)}</text>'
        for kind, below, text in lines
    )
    return "".join([f'<rect class="et-{style}" {place} rx="5"/>', *texts])


def _text(x: float, y: float, text: str, anchor: str, *, small: bool = False) -> str:
    style = "small" if small else "title"
    return f'<text class="et-{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(a: tuple[float, float], b: tuple[float, float], style: str) -> str:
    return f'<line class="et-{style}" x1="{a[0]:g}" y1="{a[1]:g}" x2="{b[0]:g}" y2="{b[1]:g}"/>'


def _arrow(a: tuple[float, float], b: tuple[float, float]) -> str:
    """From one box to the upper edge of another, with its head."""
    end = (b[0] + (a[0] - b[0]) * 0.12, b[1] - 22)
    head = f'<path class="et-head" d="M{end[0]:g} {end[1]:g} l-5 -9 h10 z"/>'
    return _line(a, (end[0], end[1] - 6), "edge") + head


def _svg(height: float, parts: Sequence[str], says: str) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(says)}">'
    under = f"<figcaption>{escape(says)}</figcaption>"
    return f'<figure class="et-figure">{head}{"".join(parts)}</svg>{under}</figure>'
