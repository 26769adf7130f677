"""From what the client wants to what it signs, and what that would cost: pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from statistics import median_low
from typing import TYPE_CHECKING, Any, Self

from eigentensor import economics, merkle
from eigentensor.chain import Network, to_wei
from eigentensor.chain.keys import checked_address
from eigentensor.economics import WAD, Parameters
from eigentensor.economics.words import read_rate
from eigentensor.errors import BindingError, TermsRefused
from eigentensor.program.codec import encode
from eigentensor.program.cost import costs, game_work
from eigentensor.program.model import Program
from eigentensor.program.products import products
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor.task.order import NONE, Order
from eigentensor.wire import Object, Rate, Root, Wei, read
from eigentensor_client.amounts import percent
from eigentensor_client.offers import ACCEPT_EACH, ACCEPT_WITHIN, EXEC, LOCAL_PRICE, STAGES, Offer
from eigentensor_client.quotes import SILENT, Market, Operators, fair
from eigentensor_client.results import Plan

if TYPE_CHECKING:
    from eigentensor_client.files import Tensors

CHECK_RATE = WAD // 5  # a fifth of the tasks is checked unless the client says otherwise
MOST_VERIFIERS = 4
MOST_BLOCKS = 1 << 63  #: that a price rises, or an offer stands: with the block of the post, 64 bits hold them
_NOBODY = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Work:
    """A program bound to its tensors: what is to be executed.

    Weights and states that the gateway has already may be given by their bindings root: no byte of them is needed here.
    `cast` says what was float64 and is float32.
    """

    program: Program
    inputs: "Tensors"
    weights: "Tensors | bytes" = field(default_factory=dict)
    states: "Tensors | bytes" = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    repeat: int = 1
    cast: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Work of {repr(self.program)[1:-1]}{f', {self.repeat} times' * (self.repeat > 1)}>"


@dataclass(frozen=True, slots=True)
class Terms(Object):
    """What the client offers: amounts in wei, rates in WAD (10¹⁸ is 1), times in blocks."""

    max_price: Wei
    """Wei at most."""
    min_price: Wei | None = None
    """Wei at first; null: `max_price`, and if `ramp` is null, too, about what operators ask."""
    ramp: int | None = None
    """Blocks in which the price rises from its first to its most; null: soon, once it was offered for a while, or, with
    a `min_price`, at once."""
    check_rate: Rate = CHECK_RATE
    """How probably others re-execute it."""
    verifiers: int = 1
    """How many re-execute a task that is drawn."""
    check_fee: Wei | None = None
    """Wei for each of them; null: the least that the market allows."""
    value_at_risk: Wei = 0
    """Wei that a wrong result could gain its executor beyond the price."""
    exec: int | None = None
    """Blocks that the executor has for its commit; null: as many as usual, or as the market allows."""
    accept_within: int = ACCEPT_WITHIN
    """Blocks in which it can be accepted, and a few more for what waits behind others."""
    operators: Root = NONE
    """The root of the operators that may accept it; zeros: all."""

    def __repr__(self) -> str:
        checks = f"checks {percent(self.check_rate)} by {self.verifiers}"
        return f"<Terms: at most {self.max_price} wei, {checks}, accepted within {self.accept_within} blocks>"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        if set(values) != {field.name for field in fields(cls)}:
            raise ValueError("the terms are incomplete")
        return cls(**read(cls, values))

    @property
    def is_fixed(self) -> bool:
        """Whether the client chose how the price goes, instead of what operators ask."""
        return self.min_price is not None or self.ramp is not None


@dataclass(frozen=True, slots=True)
class Roots:
    """The names of a work's parts, as an order carries them; NONE where there is no such part."""

    program: bytes
    inputs: bytes = NONE
    weights: bytes = NONE
    states: bytes = NONE
    variables: bytes = NONE


def draft(
    client: str,
    nonce: int,
    block: int,
    work: Work,
    roots: Roots,
    terms: Terms,
    p: Parameters,
    *,
    place: int = 0,
    market: Market = SILENT,
) -> Order:
    """The order that asks for a work on these terms, at block `block`, behind `place` others: it waits for those. Where
    the terms do not say how its price goes, it follows from what operators ask in the market."""
    order = Order(
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
        ramp_length=terms.ramp or 0,
        check_fee=check_fee(p, terms),
        check_rate=terms.check_rate,
        verifiers=terms.verifiers,
        value_at_risk=terms.value_at_risk,
        exec=exec_of(p, terms),
        accept_by=block + terms.accept_within + place * ACCEPT_EACH,
        operators=terms.operators,
    )
    if terms.is_fixed:
        return order
    rise = fair(market.quotes(order, work.program, p), terms.max_price, terms.accept_within)
    start = block + rise.hold + place * ACCEPT_EACH
    return replace(order, min_price=rise.first, ramp_start=start, ramp_length=rise.ramp)


def renewed(order: Order, nonce: int, block: int, since: int) -> Order:
    """The same work on the same terms as another task: in block `block` its price and its time go as those of the first
    in block `since`."""
    moved = block - since
    return replace(order, nonce=nonce, ramp_start=order.ramp_start + moved, accept_by=order.accept_by + moved)


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


def read_terms(network: Network, offer: Offer) -> Terms:
    """The terms that are offered. Raises BindingError without a price on a chain that is not local, ConfigError for an
    operator that is no address."""

    def wei(tokens: str) -> int:
        return to_wei(tokens, network.deployment.token_decimals)

    only = checked_address(offer.operator, "--operator")
    most = offer.max_price or (LOCAL_PRICE if network.is_local else None)
    if most is None:
        raise BindingError(
            "no price is offered", fix="Say with --max-price how many tokens the executor is paid at most."
        )
    return Terms(
        max_price=wei(most),
        min_price=None if offer.min_price is None else wei(offer.min_price),
        ramp=offer.ramp,
        check_rate=read_rate(offer.check),
        verifiers=offer.verifiers,
        check_fee=None if offer.check_fee is None else wei(offer.check_fee),
        value_at_risk=wei(offer.value_at_risk),
        exec=offer.exec,
        accept_within=offer.accept_within,
        operators=merkle.operators_root([bytes.fromhex(only[2:])]) if only else NONE,
    )


def check_terms(p: Parameters, terms: Terms) -> None:
    """Raises TermsRefused for what the market would refuse."""
    least, exec_ = economics.check_fee_bound(p, terms.max_price), exec_of(p, terms)
    for wrong, what, fix in (
        (
            terms.max_price <= 0,
            "nobody works for nothing: a price of 0 at most is no offer",
            "Offer more with --max-price: `eigentensor plan` shows what operators ask.",
        ),
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
        (
            max(terms.accept_within, terms.ramp or 0) > MOST_BLOCKS,
            f"{max(terms.accept_within, terms.ramp or 0)} blocks are more than an order can name",
            "Choose fewer with --accept-within and --ramp.",
        ),
    ):
        if wrong:
            raise TermsRefused(what, fix=fix)


def plan(
    work: Work,
    terms: Terms,
    p: Parameters,
    *,
    balance: int,
    tokens: int,
    operators: Operators | None,
    gas_price: int = 0,
) -> Plan:
    """A valid work on valid terms, for an account with these wei in the market and in its wallet. `operators` is the
    gateway's list of them, None if it does not answer; `gas_price` are wei of the chain's coin for a unit of gas."""
    members = [one for one in operators or () if one["member"]]
    lately = [one["lately"] for one in members if one.get("lately")]
    cost, encoded, fee = costs(work.program), encode(work.program), check_fee(p, terms)
    exec_ = exec_of(p, terms)
    held = escrow(p, terms)
    market, roots = Market.read(operators, gas_price), Roots(merkle.program_root(encoded))
    order = draft(_NOBODY, 0, 0, work, roots, terms, p, market=market)
    quotes = [quote.price for quote in market.quotes(order, work.program, p)]
    return Plan(
        program=roots.program.hex(),
        calls=cost.calls * work.repeat,
        evaluations=cost.evaluations * work.repeat,
        upload=len(encoded) + cost.input_bytes + cost.weight_bytes + cost.state_bytes,
        memory=estimate_memory_requirements(work.program, repeat=work.repeat)["CPU"],
        results=cost.result_bytes,
        repeat=work.repeat,
        products=products(work.program),
        game=game_work(work.program),
        witness=cost.largest_witness,
        referee_gas=cost.largest_gas,
        min_price=order.min_price,
        max_price=order.max_price,
        hold=order.ramp_start,
        ramp=order.ramp_length,
        quotes=len(quotes),
        lowest_asked=quotes[0] if quotes else None,
        median_asked=median_low(quotes) if quotes else None,
        check_rate=terms.check_rate,
        verifiers=terms.verifiers,
        check_fee=fee,
        value_at_risk=terms.value_at_risk,
        escrow=held,
        detection=economics.detection(terms.check_rate, terms.verifiers, p.sybils),
        stake=economics.stake(p, terms.max_price, terms.value_at_risk, terms.check_rate, terms.verifiers),
        collateral=economics.collateral(p, terms.max_price, terms.verifiers, fee),
        penalty=economics.penalty(p, terms.max_price),
        exec=exec_,
        accept_within=terms.accept_within,
        result_within=exec_ + p.lag + p.grid + economics.reveal_window(p, exec_),
        final_after=economics.challenge_window(p, exec_),
        balance=balance,
        tokens=tokens,
        operators=None if operators is None else len(members),
        lowest_paid=min((int(paid["lowest_price"]) for paid in lately), default=None),
        highest_paid=max((int(paid["highest_price"]) for paid in lately), default=None),
        affordable=balance + tokens >= held,
    )
