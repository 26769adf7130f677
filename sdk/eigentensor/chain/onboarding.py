"""How an account becomes an operator: steps that look before they act, to be taken again after any failure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eigentensor.chain.chain import Chain
from eigentensor.chain.units import from_wei
from eigentensor.errors import ConfigError

#: Wei that a strategy may take by rounding when it turns tokens into shares.
_ROUNDING = 1024


@dataclass(frozen=True, slots=True)
class Step:
    """`is_done` asks the chain, `do` sends what is missing and returns when it is in the chain."""

    name: str
    what: str
    is_done: Callable[[], bool]
    do: Callable[[], object]


def joining(
    chain: Chain, *, signer: str, collateral_cap: int, stake_cap: int, stake: int, collateral: int, seats: int
) -> Sequence[Step]:
    """What the owner of `chain` does to become an operator of its market. Amounts in wei of the market's token.

    `signer` will act for it with at most `collateral_cap` in tasks and `stake_cap` (shares) locked; `stake` is
    deposited into EigenLayer, and what no other operator set has of it may be slashed; `collateral` is deposited into
    the market; from `seats` seats it is drawn to check others.
    """
    operator = chain.address
    symbol = chain.deployment.token_symbol

    def held() -> int:
        account = chain.balance_of(operator)
        return account.balance + account.collateral

    return (
        Step(
            "operator",
            "become an operator of EigenLayer",
            lambda: chain.is_operator(operator),
            chain.register_as_operator,
        ),
        Step(
            "stake",
            f"deposit {from_wei(stake)} {symbol} as stake",
            lambda: chain.stake_of(operator) + _ROUNDING >= stake,
            lambda: _paying(chain, stake - chain.stake_of(operator), chain.deposit_stake),
        ),
        Step(
            "allocation",
            "let the operator set of the market slash what no other set may slash",
            lambda: chain.allocatable_of(operator) == 0,
            lambda: chain.allocate(chain.allocation_of(operator) + chain.allocatable_of(operator)),
        ),
        Step(
            "operator set",
            "join the operator set of the market",
            lambda: chain.is_member(operator),
            chain.join_operator_set,
        ),
        Step(
            "signer",
            f"let {signer} hold at most {from_wei(collateral_cap)} {symbol} of collateral in tasks, "
            f"and lock at most {from_wei(chain.worth_of(stake_cap))} {symbol} of stake",
            lambda: chain.signer_of(operator) == (signer, collateral_cap, stake_cap),
            lambda: chain.set_signer(signer, collateral_cap, stake_cap),
        ),
        Step(
            "collateral",
            f"deposit {from_wei(collateral)} {symbol} of collateral into the market",
            lambda: held() >= collateral,
            lambda: _paying(chain, collateral - held(), lambda amount: chain.deposit(operator, amount)),
        ),
        Step(
            "seats",
            f"take seats among the verifiers: {seats}",
            lambda: chain.seats_of(operator) >= seats,
            lambda: chain.enlist(operator, seats - chain.seats_of(operator)),
        ),
    )


def _paying(chain: Chain, amount: int, pay: Callable[[int], object]) -> None:
    tokens = chain.tokens_of(chain.address)
    if tokens < amount:
        symbol = chain.deployment.token_symbol
        raise ConfigError(
            f"{chain.address} has {from_wei(tokens)} {symbol} and needs {from_wei(amount)}",
            fix=f"Send it {from_wei(amount - tokens)} {symbol} first.",
        )
    pay(amount)
