"""Pictures of the economics, as figures of matplotlib, which is imported here and in no other module."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eigentensor.economics import WAD, curves
from eigentensor.economics.curves import Curves
from eigentensor.economics.expected import Expectation, break_even_fraud
from eigentensor.economics.situation import Situation
from eigentensor.economics.terms import GAS_CHALLENGE
from eigentensor.economics.tuning import Lock
from eigentensor.errors import ConfigError

#: Distinguishable in grey and to eyes that see no red or green.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def save(figure: Figure, path: Path) -> Path:
    """Writes a PNG; the file is whole or it is not there. Raises ConfigError."""
    temporary = path.with_name(f".{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(temporary, format="png", dpi=150)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", fix="Choose another --output.") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return path


def payoffs(x: Situation) -> Figure:
    """What lying pays, against the check rate with the stake that the market locks, and against the stake."""
    figure, (left, right) = _panels(2)
    _draw(left, curves.payoffs_by_rate(x))
    _draw(right, curves.payoffs_by_stake(x), y="")
    for axes in (left, right):
        axes.axhline(0, color="0.5", linewidth=0.8)
    right.axvline(x.amounts.s / x.price, color="0.5", linestyle=":", label="what the market locks")
    right.set_xscale("log")
    right.set_ylim(-4 * x.price, 1.1 * (x.price + x.gain))
    title = f"Payoff of honesty and of lies: P {x.price:g}, gain {x.gain:g}, C {x.cost:g}, r {x.share:.3g}"
    return _finish(figure, title, [right])


def frontier(x: Situation, security: float) -> Figure:
    """The stake that makes every lie lose `security`, and the share of seats from which lying pays."""
    figure, (left, right) = _panels(2)
    _draw(left, curves.stake_frontier(x, security), second="--")
    left.set_yscale("log")
    _draw(right, curves.share_frontier(x), second=":")
    right.axhline(x.parameters.sybils / WAD, color="0.5", linestyle="--", label="assumed by the market")
    right.set_ylim(0, 1)
    figure = _finish(figure, f"Security frontier: P {x.price:g}, gain {x.gain:g}, X {x.value_at_risk:g}")
    right.legend(fontsize=8, ncols=2, loc="lower left")
    return figure


def operator(x: Situation, lock: Lock, exec_: int) -> Figure:
    """What an honest operator keeps of a task's price, after computing, gas, and what its lock costs."""
    figure, (left, right) = _panels(2)
    prices = np.geomspace(1e-4, 10, 60)
    for gas, colour in zip((0.1, 1, 10, 50), COLOURS, strict=False):
        kept = []
        for price in prices:
            part = price / x.price
            order = replace(
                x, price=price, cost=x.cost * part, gain=x.gain * part, value_at_risk=x.value_at_risk * part,
                gas_price=gas * 1e-9,
            )  # fmt: skip
            kept.append(100 * (Expectation(order, 0.0).honest() - lock.cost(order, exec_)) / price)
        left.plot(prices, kept, color=colour, label=f"gas at {gas:g} gwei")
    left.axhline(0, color="0.5", linewidth=0.8)
    left.set_xscale("log")
    left.set_ylim(-50, max(10.0, 110 * (1 - x.cost / x.price)))
    _label(
        left, f"Part kept of a price of which {x.cost / x.price:.0%} is computing", "price P, tokens", "% of the price"
    )
    rates = np.linspace(max(0.01, x.parameters.check_floor / WAD), 1, 60)
    orders = [replace(x, rate=rate) for rate in rates]
    right.plot(rates, [Expectation(o, 0.0).honest() for o in orders], color=COLOURS[0], label="before the lock")
    after = [Expectation(o, 0.0).honest() - lock.cost(o, exec_) for o in orders]
    right.plot(rates, after, color=COLOURS[1], label=f"after it, at {lock.interest:.0%} a year")
    _label(right, "An operator's revenue", "check rate α", "tokens per task")
    return _finish(figure, f"Operator: P {x.price:g}, C {x.cost:g}, X {x.value_at_risk:g}, {exec_} blocks an execution")


def verifier(x: Situation) -> Figure:
    """What a drawn verifier earns by executing, guessing and silence, and a watcher without a seat, by how many lie."""
    figure, (axes,) = _panels(1)
    e, fraud = Expectation(x, 0.0), np.geomspace(1e-4, 1, 80)
    caught = e.m.v + e.m.W + e.half / x.verifiers - GAS_CHALLENGE * x.gas_price
    executing = (1 - fraud) * e.m.v + fraud * caught - x.cost - e.answer
    axes.plot(fraud, executing, color=COLOURS[0], label="drawn, and executes")
    axes.plot(fraud, np.zeros_like(fraud), color="0.5", label="silent")
    axes.plot(
        fraud, np.full_like(fraud, -e.m.B - e.answer), color=COLOURS[1], label="guesses, or never opens its answer"
    )
    watching = fraud * (e.m.W + e.half - GAS_CHALLENGE * x.gas_price) - x.cost
    axes.plot(fraud, watching, color=COLOURS[2], label="watches without a drawn seat")
    if (even := break_even_fraud(x)) < 1:
        axes.axvline(even, color=COLOURS[2], linestyle=":", label=f"watching pays from {even:.2%} unlaundered lies")
    axes.set_xscale("log")
    axes.set_ylim(-1.2 * (e.m.B + e.answer), 5 * e.m.v)
    _label(axes, "A verifier's revenue", "part of all results that are wrong", "tokens per execution")
    return _finish(figure, f"Verifier: v {e.m.v:.4g}, C {x.cost:g}, s {e.m.s:.4g}, W {e.m.W:.4g}")


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(6.4 * count, 4.8), layout="constrained")
    return figure, [figure.add_subplot(1, count, i + 1) for i in range(count)]


def _draw(axes: Axes, shown: Curves, *, second: str = "-", y: str | None = None) -> None:
    colours = iter(COLOURS)
    colour = ""
    for curve in shown.curves:
        colour = colour if curve.is_second else next(colours)
        values = [float("nan") if value is None else value for value in curve.values]
        axes.plot(shown.at, values, color=colour, linestyle=second if curve.is_second else "-", label=curve.name)
    _label(axes, shown.title, shown.x, shown.y if y is None else y)


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)


def _finish(figure: Figure, title: str, explained: Sequence[Axes] | None = None) -> Figure:
    """Legends where they are wanted, by default in all panels."""
    for axes in figure.axes if explained is None else explained:
        axes.legend(fontsize=8)
    figure.suptitle(title, fontsize=12)
    return figure
