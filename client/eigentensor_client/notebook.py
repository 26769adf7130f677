"""What Jupyter shows: values as tables of HTML in which every text is text, and work as a bar that moves."""

import base64
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from eigentensor.chain.units import DECIMALS
from eigentensor.web.pages.words import visible

if TYPE_CHECKING:
    from eigentensor_client.phases import Bar

_LONGEST = 200  # characters of a text that are shown
_DIGITS = 9  # of an amount


def is_here() -> bool:
    """Whether a cell of a notebook runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


def quoted(value: object) -> str:
    """A text as HTML that shows it: no markup, nothing that turns what stands around it, not too long."""
    shown = visible(value)
    return escape(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")


def tokens(wei: int | None) -> str:
    """An amount for people who do not see of which market it is: whole tokens."""
    if wei is None:
        return ""
    exact = Decimal(wei) / 10**DECIMALS
    short = exact.normalize(Context(prec=_DIGITS))
    return f"{'' if short == exact else '~'}{short:f} tokens"


def facts(title: str, rows: Sequence[tuple[str, object]], more: str = "") -> str:
    """A table of names and what they stand for, without those that stand for nothing; `more` is HTML below it."""
    lines = "".join(
        f'<tr><th style="text-align:left">{quoted(name)}</th><td style="text-align:left">{quoted(value)}</td></tr>'
        for name, value in rows
        if value not in (None, "")
    )
    return f"<div><b>{quoted(title)}</b><table>{lines}</table>{more}</div>"


def download(name: str, content: bytes) -> str:
    """A link that saves a file, which is in the link itself."""
    data = base64.b64encode(content).decode()
    return f'<a download="{quoted(name)}" href="data:application/json;base64,{data}">{quoted(name)}</a>'


@contextmanager
def bar() -> "Iterator[Bar]":
    """Work as a cell shows it while it goes on: what is done now, how far that is, the seconds of what is over."""
    from eigentensor_client.phases import Phase

    kernel = import_module("IPython.display")  # what runs the cell has it; nobody else needs it
    shown = kernel.display(kernel.HTML(""), display_id=True)
    over: list[str] = []
    now = Phase()

    def draw(*lines: str) -> None:
        shown.update(kernel.HTML("<br>".join([*over, *lines])))

    def leave() -> None:
        if now.name:
            over.append(f"{quoted(now.name)} <small>{now.seconds:.1f} s</small>")

    def go_on(text: str, done: float | None = None, total: float | None = None) -> None:
        nonlocal now
        after = now.then(text, done, total)
        if after == now:
            return
        if after.name != now.name:
            leave()
        now = after
        part = "" if done is None or not total else f' value="{done:g}" max="{total:g}"'
        draw(f"<progress{part}></progress> {quoted(text)}")

    try:
        yield go_on
    finally:
        leave()
        draw()
