"""What a measured machine asks for in a market, as people and programs read it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from eigentensor import economics
from eigentensor.chain import Deployment, from_wei
from eigentensor.chain.units import GWEI
from eigentensor.economics import WAD, Parameters
from eigentensor.economics.pricing import Conditions, Pricing, Quote, price_policy, readable
from eigentensor.task import NONE, Order
from eigentensor_operator.bench import Measured, Timing
from eigentensor_operator.config import Settings
from eigentensor_operator.policy import SEMANTICS

if TYPE_CHECKING:
    from eigentensor_operator import schemas

_NOBODY = "0x" + "00" * 20
_RATE = WAD // 5
_HEAD = ("program", "evaluations", "seconds", "per second", "computing", "gas", "games", "lock", "price")


@dataclass(frozen=True, slots=True)
class Row:
    """A measured program, the blocks that its order has for the execution, and what it has to pay (None: no price)."""

    timing: Timing
    exec: int
    quote: Quote | None


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one machine in one market, while gas costs `gas_price` wei of the coin."""

    measured: Measured
    deployment: Deployment
    pricing: Pricing
    gas_price: int
    rows: tuple[Row, ...]

    def to_json(self, settings: Mapping[str, str], *, written: bool) -> "schemas.OperatorBench":
        """`eigentensor.operator-bench/1`: amounts in wei as decimal strings, times in seconds."""
        m = self.measured
        return {
            "schema": "eigentensor.operator-bench/1",
            "device": m.device,
            "startup_seconds": m.startup_seconds,
            "operations_per_second": m.operations_per_second,
            "bytes_per_second": m.bytes_per_second,
            "store_bytes_per_second": m.store,
            "gateway_bytes_per_second": m.gateway,
            "gas_price": str(self.gas_price),
            "pricing": self.pricing.to_json(),
            "programs": [self._row(row) for row in self.rows],
            "settings": dict(settings),
            "written": written,
        }

    def _row(self, row: Row) -> "schemas.MeasuredProgram":
        t, quote = row.timing, row.quote
        return {
            "program": t.program,
            "operations": t.needs.operations,
            "memory": t.needs.memory,
            "seconds": t.seconds,
            "operations_per_second": t.rate,
            "expected_seconds": self.measured.seconds_of(t.needs),
            "exec": row.exec,
            "costs": quote.costs.to_json() if quote else None,
            "price": str(quote.price) if quote else None,
        }

    def lines(self) -> Iterator[str]:
        """The same to people."""
        m, symbol, decimals = self.measured, self.deployment.token_symbol, self.deployment.token_decimals
        gateway = "the gateway took none" if m.gateway is None else f"{_short(m.gateway)}B/s fetched and verified"
        yield f"device    {m.device}, {_short(m.operations_per_second)} evaluations per second by its slowest program"
        yield f"startup   {m.startup_seconds:.3g} s of every execution, with sandbox and recheck"
        yield f"memory    {_short(m.bytes_per_second)}B/s of buffers, read, moved and written"
        yield f"blobs     {_short(m.store)}B/s hashed and kept; {gateway}"
        yield f"gas       {self.gas_price / GWEI:.3g} gwei"
        yield ""

        def amount(wei: int) -> str:
            return from_wei(readable(wei), decimals)

        table: list[tuple[str, ...]] = [_HEAD]
        for row in self.rows:
            t, quote = row.timing, row.quote
            speed = (f"{t.needs.operations:,}", f"{t.seconds:.3g}", _short(t.rate))
            costs = tuple(amount(wei) for wei in asdict(quote.costs).values()) if quote else ("–",) * 4
            table.append((t.program, *speed, *costs, amount(quote.price) if quote else "none"))
        yield from _columns(table)
        r = self.pricing
        yield f"in {symbol}, of an order that one verifier checks with {_RATE / WAD:.0%} and that puts no more at risk:"
        yield f"computing at {from_wei(r.price_per_hour, decimals)} an hour, gas, games about {from_wei(r.disputed)} of"
        yield f"all results, {from_wei(r.interest)} a year on what it locks, and {from_wei(r.margin)} of it all on top"


def prices(measured: Measured, deployment: Deployment, settings: Settings, gas_price: int) -> Prices:
    """What the machine asks for each measured program, as the daemon will expect it to take by these rates."""
    p, rows = deployment.parameters, []
    reserve = settings.reserve_in(p)
    pricing = settings.pricing(deployment.token_decimals)
    for timing in measured.timings:
        seconds = measured.seconds_of(timing.needs)
        exec_ = min(p.max_exec, math.ceil(seconds / settings.block_seconds) + reserve)
        conditions = Conditions(seconds, gas_price, settings.block_seconds)
        rows.append(Row(timing, exec_, _quote(pricing, p, exec_, conditions)))
    return Prices(measured, deployment, pricing, gas_price, tuple(rows))


def speed(measured: Measured) -> dict[str, str]:
    """What the daemon is to expect of this machine, as settings: not faster than it was measured."""
    startup = math.ceil(measured.startup_seconds * 100) / 100
    rates = {name: _floor(getattr(measured, name)) for name in ("operations_per_second", "bytes_per_second")}
    return {name: str(rate) for name, rate in rates.items()} | {"startup_seconds": str(startup)}


def _quote(pricing: Pricing, p: Parameters, exec_: int, c: Conditions) -> Quote | None:
    """For an order whose fee for a check is the least that goes with its price."""
    price, quote = -1, price_policy(pricing, p, ordinary(p, exec_, 0), c)
    while quote is not None and quote.price > price:
        price, quote = quote.price, price_policy(pricing, p, ordinary(p, exec_, quote.price), c)
    return quote


def ordinary(p: Parameters, exec_: int, price: int) -> Order:
    """An order as many are: one task in five checked by one verifier, at the least fee, nothing more at risk."""
    return Order(
        client=_NOBODY, nonce=0, semantics=SEMANTICS, program=NONE, inputs=NONE, weights=NONE, states=NONE,
        variables=NONE, repeat=1, min_price=price, max_price=price, ramp_start=0, ramp_length=0,
        check_fee=economics.check_fee_bound(p, price), check_rate=max(_RATE, p.check_floor), verifiers=1,
        value_at_risk=0, exec=exec_, accept_by=0, operators=NONE,
    )  # fmt: skip


def _floor(rate: float) -> int:
    """Three digits of it."""
    unit: int = 10 ** max(0, len(str(int(rate))) - 3)
    return int(rate) // unit * unit


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        numbers = (text.rjust(width) for text, width in zip(rest, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *numbers))


def _short(number: float) -> str:
    """With a prefix of the SI."""
    power = min(4, max(0, int(math.log10(max(number, 1)) // 3)))
    return f"{number / 1000**power:.3g} {' kMGT'[power]}".rstrip()
