"""Rates, amounts and situations as people write them."""

from decimal import Decimal, InvalidOperation

from eigentensor.economics.situation import Situation
from eigentensor.economics.terms import WAD, Parameters
from eigentensor.errors import BindingError, TermsRefused

_GWEI = 10**9


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


def read_tokens(word: str) -> float:
    """Tokens, not negative. Raises BindingError."""
    try:
        number = Decimal(word)
    except InvalidOperation:
        number = Decimal(-1)
    if not number.is_finite() or not 0 <= number <= 10**9:
        raise BindingError(f"{word!r} is not an amount of tokens", fix="Write it as 0.05, at most 1e9.")
    return float(number)


def read_situation(
    parameters: Parameters,
    *,
    price: str,
    cost: str,
    gain: str,
    share: str,
    diligence: str,
    watch: str,
    gas_price: str,
    check: str = "100%",
    verifiers: int = 1,
    value_at_risk: str | None = None,
    stake: str | None = None,
) -> Situation:
    """A situation in a market: amounts in tokens, rates as people write them, gas in gwei; an order says the gain
    unless it names another `value_at_risk`. Raises BindingError, and TermsRefused for a check rate that the market does
    not take."""
    tokens, gained, rate = read_tokens(price), read_tokens(gain), read_rate(check)
    if not tokens:
        raise BindingError("a price of zero has no economics", fix="Give a price above zero.")
    if rate < parameters.check_floor:
        floor = f"{(Decimal(parameters.check_floor) * 100 / WAD).normalize():f} %"
        raise TermsRefused(f"this market takes no check rate below {floor}", fix="Give a higher check rate.")
    return Situation(
        parameters=parameters,
        price=tokens,
        rate=rate / WAD,
        verifiers=verifiers,
        gain=gained,
        value_at_risk=gained if value_at_risk is None else read_tokens(value_at_risk),
        stake=None if stake is None else read_tokens(stake),
        cost=read_tokens(cost),
        share=read_rate(share) / WAD,
        diligence=read_rate(diligence) / WAD,
        watch=read_rate(watch) / WAD,
        gas_price=read_tokens(gas_price) * _GWEI / WAD,
    )
