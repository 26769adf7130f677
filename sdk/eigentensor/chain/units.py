"""Amounts between wei, which everything computes with, and decimal text, which people read."""

from decimal import Context, Decimal, DecimalException, localcontext
from typing import Annotated, Any

from eigentensor.errors import ConfigError

DECIMALS = 18
GWEI = 10**9  # wei of the chain's coin
SHOWN = 9  # digits of an amount that nobody would read in full
_LIMIT = Decimal(10) ** 80


def to_wei(text: str, decimals: int = DECIMALS) -> int:
    """The exact amount that a decimal number names; raises ConfigError for anything else."""
    with localcontext(prec=120):
        try:
            amount = Decimal(text.strip().replace("_", "")).scaleb(decimals)
            if amount.is_finite() and 0 <= amount < _LIMIT and amount == amount.to_integral_exact():
                return int(amount)
        except DecimalException:
            pass
    raise ConfigError(
        f"{text!r} is not an amount with at most {decimals} decimals", fix="Write a decimal number such as 0.05."
    )


def from_wei(amount: int, decimals: int = DECIMALS) -> str:
    """The shortest decimal number that names an amount exactly."""
    sign, digits = ("-", -amount) if amount < 0 else ("", amount)
    whole, fraction = divmod(digits, 10**decimals)
    return f"{sign}{whole}.{fraction:0{decimals}}".rstrip("0").rstrip(".") if decimals else f"{sign}{whole}"


def shown(amount: int, decimals: int = DECIMALS) -> str:
    """The same for people: exact, unless nobody would read all of its digits; then it begins with `~`."""
    exact = from_wei(amount, decimals)
    if len(exact.partition(".")[2]) <= SHOWN:
        return exact
    return f"~{Decimal(exact).normalize(Context(prec=SHOWN)):f}"


class _Amount:
    """Holds the text of a setting to `to_wei`. Pydantic asks for it, which others do not wait for."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(_is_amount, handler(source))


def _is_amount(text: str) -> str:
    try:
        to_wei(text)
    except ConfigError as error:
        raise ValueError(error.what) from None
    return text


#: A setting: decimal text in whole tokens, such as 0.001.
Tokens = Annotated[str, _Amount()]
