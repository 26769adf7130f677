"""What is looked at before an account becomes an operator, so that nothing is spent in vain."""

from eigentensor.chain import Chain, from_wei
from eigentensor.errors import InsufficientFunds


def settle(chain: Chain) -> None:
    """Waits for what an interrupted run had sent: then the chain alone says what is done."""
    chain.sender.resume()
    for intent in chain.journal.pending():
        chain.sender.wait(intent.key)


def check_funds(chain: Chain, signer: str, stake: int, collateral: int) -> None:
    """Raises InsufficientFunds, which names what is missing where: gas of both keys, tokens for all steps together."""
    symbol, owner = chain.deployment.token_symbol, chain.address
    for who, account in (("owner", owner), ("signer", signer)):
        if chain.ether_of(account) == 0:
            raise InsufficientFunds(
                f"the {who} {account} has no gas", fix="Send some of the chain's coin there, then run this again."
            )
    held = chain.balance_of(owner)
    missing = max(0, stake - chain.stake_of(owner)) + max(0, collateral - held.balance - held.collateral)
    tokens = chain.tokens_of(owner)
    if tokens < missing:
        raise InsufficientFunds(
            f"the owner {owner} has {from_wei(tokens)} {symbol}; stake and collateral need {from_wei(missing)}",
            fix="Send the rest there, or ask for less with --stake and --collateral, then run this again.",
        )
