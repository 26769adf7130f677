"""From what the client wants to what it signs: pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Self

from eigentensor import economics
from eigentensor.economics import WAD, Parameters
from eigentensor.errors import BindingError, TermsRefused
from eigentensor.program import Program
from eigentensor.task.order import NONE, Order
from eigentensor_client.defaults import ACCEPT_EACH, ACCEPT_WITHIN, EXEC, STAGES
from eigentensor_client.results import Tensors

CHECK_RATE = WAD // 5  # a fifth of the tasks is checked unless the client says otherwise
MOST_VERIFIERS = 4


@dataclass(frozen=True, slots=True)
class Work:
    """A program bound to its tensors: what is to be executed.

    Weights and states that the gateway has already may be given by their bindings root: no byte of them is needed here.
    `cast` says what was float64 and is float32.
    """

    program: Program
    inputs: Tensors
    weights: Tensors | bytes = field(default_factory=dict)
    states: Tensors | bytes = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    repeat: int = 1
    cast: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """What the client offers: wei of the market's token, blocks, WAD.

    The price rises from `min_price` to `max_price` within `ramp` blocks after the post. With probability `check_rate`
    the task is re-executed by `verifiers` others, `check_fee` each (None: the least that the market allows), paid only
    then. `value_at_risk` is what a wrong result could gain its executor beyond the price: it locks more stake for it.
    `exec` blocks are for the execution (None: as many as usual, or as the market allows), `accept_within` for the
    acceptance, and a few more for what waits behind others.
    """

    max_price: int
    min_price: int | None = None
    ramp: int = 0
    check_rate: int = CHECK_RATE
    verifiers: int = 1
    check_fee: int | None = None
    value_at_risk: int = 0
    exec: int | None = None
    accept_within: int = ACCEPT_WITHIN
    operators: bytes = NONE

    def to_json(self) -> dict[str, Any]:
        """Amounts in wei and rates as decimal strings."""
        values = asdict(self) | {"operators": self.operators.hex()}
        return {n: str(v) if n in _AMOUNTS and v is not None else v for n, v in values.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        if set(values) != {field.name for field in fields(cls)}:
            raise ValueError("the terms are incomplete")
        amounts = {name: None if values[name] is None else int(values[name]) for name in _AMOUNTS}
        return cls(**{**values, **amounts, "operators": bytes.fromhex(values["operators"])})


_AMOUNTS = ("max_price", "min_price", "check_rate", "check_fee", "value_at_risk")


@dataclass(frozen=True, slots=True)
class Roots:
    """The names of a work's parts, as an order carries them; NONE where there is no such part."""

    program: bytes
    inputs: bytes = NONE
    weights: bytes = NONE
    states: bytes = NONE
    variables: bytes = NONE


def draft(
    client: str, nonce: int, block: int, work: Work, roots: Roots, terms: Terms, p: Parameters, *, place: int = 0
) -> Order:
    """The order that asks for a work on these terms, at block `block`, behind `place` others: it waits for those."""
    return Order(
        client=client,
        nonce=nonce,
        semantics=work.program.semantics,
        program=roots.program,
        inputs=roots.inputs,
        weights=roots.weights,
        states=roots.states,
        variables=roots.variables,
        repeat=work.repeat,
        min_price=terms.max_price if terms.min_price is None else terms.min_price,
        max_price=terms.max_price,
        ramp_start=block,
        ramp_length=terms.ramp,
        check_fee=check_fee(p, terms),
        check_rate=terms.check_rate,
        verifiers=terms.verifiers,
        value_at_risk=terms.value_at_risk,
        exec=exec_of(p, terms),
        accept_by=block + terms.accept_within + place * ACCEPT_EACH,
        operators=terms.operators,
    )


def renewed(order: Order, nonce: int, block: int) -> Order:
    """The same work on the same terms as another task, at block `block`; it can be accepted as long as the first."""
    return replace(order, nonce=nonce, ramp_start=block, accept_by=block + order.accept_by - order.ramp_start)


def check_fee(p: Parameters, terms: Terms) -> int:
    """v: what each verifier is paid if the task is drawn."""
    return economics.check_fee_bound(p, terms.max_price) if terms.check_fee is None else terms.check_fee


def exec_of(p: Parameters, terms: Terms) -> int:
    """Blocks for the execution."""
    return min(EXEC, p.max_exec) if terms.exec is None else terms.exec


def escrow(p: Parameters, terms: Terms) -> int:
    """All that can ever be spent on one task: the price and every verifier."""
    return terms.max_price + terms.verifiers * check_fee(p, terms)


def escrow_of(order: Order) -> int:
    """All that can ever be spent on a signed order."""
    return order.max_price + order.verifiers * order.check_fee


def price(order: Order, accepted_at: int) -> int:
    """What the acceptance fixed."""
    return economics.price(order.min_price, order.max_price, order.ramp_start, order.ramp_length, accepted_at)


def stake(p: Parameters, order: Order, price_: int) -> int:
    """s: what a conviction takes of the executor's stake."""
    return economics.stake(p, price_, order.value_at_risk, order.check_rate, order.verifiers)


def check_stage(stage: str) -> None:
    """Raises BindingError for a word that is no stage."""
    if stage not in STAGES:
        raise BindingError(f"{stage!r} is nothing to wait for", fix=f"Choose one of {', '.join(STAGES)}.")


def terms_for(stage: str, terms: Terms) -> Terms:
    """The terms with which a stage can be waited for: `checked` asks for a check with certainty."""
    check_stage(stage)
    return replace(terms, check_rate=WAD) if stage == "checked" else terms


def check_terms(p: Parameters, terms: Terms) -> None:
    """Raises TermsRefused for what the market would refuse."""
    least, exec_ = economics.check_fee_bound(p, terms.max_price), exec_of(p, terms)
    for wrong, what, fix in (
        (
            not p.check_floor <= terms.check_rate <= WAD,
            f"a check rate of {percent(terms.check_rate)} is not between {percent(p.check_floor)} and 100 %",
            f"Choose --check {percent(p.check_floor)} or more.",
        ),
        (
            not 1 <= terms.verifiers <= MOST_VERIFIERS,
            f"{terms.verifiers} verifiers are not between 1 and {MOST_VERIFIERS}",
            "Choose another number of --verifiers.",
        ),
        (
            check_fee(p, terms) < least,
            f"a fee of {terms.check_fee} wei for each verifier is below the least, {least} wei",
            "Leave --check-fee out: then it is the least.",
        ),
        (
            p.max_exec < economics.LEAST_EXEC,
            f"this market gives {p.max_exec} blocks to an execution, too few for any operator",
            "Choose another market: here nobody accepts.",
        ),
        (
            not economics.LEAST_EXEC <= exec_ <= p.max_exec,
            f"{exec_} blocks for the execution are not between {economics.LEAST_EXEC} and {p.max_exec}",
            f"Choose --exec {economics.LEAST_EXEC} to {p.max_exec}, or leave it out: operators need "
            f"{economics.LEAST_RESERVE} for their transactions.",
        ),
        (
            terms.min_price is not None and terms.min_price > terms.max_price,
            "the price begins above its end",
            "Lower --min-price, or leave it out.",
        ),
    ):
        if wrong:
            raise TermsRefused(what, fix=fix)


def percent(rate: int) -> str:
    """A rate as people write it, without loss: `20 %`, `0.5 %`."""
    return f"{(Decimal(rate) * 100 / WAD).normalize():f} %"


def read_rate(word: str) -> int:
    """A rate from `20%`, `20 %` or `0.2`. Raises BindingError."""
    number, sign, rest = word.partition("%")
    try:
        rate = Decimal(number.strip()) / (100 if sign else 1) * WAD
    except ArithmeticError:  # no number, or one beyond all bounds
        rate = Decimal(-1)
    if rest.strip() or not rate.is_finite() or not 0 <= rate <= WAD or rate != int(rate):
        raise BindingError(f"{word!r} is not a rate", fix="Write it as 20% or as 0.2.")
    return int(rate)
