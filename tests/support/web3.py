"""web3, which looks at a chain by code that is not ours."""

from functools import cache

from web3 import HTTPProvider, Web3

from eigentensor_local.anvil import Anvil


def web3_of(anvil: Anvil) -> Web3:
    """A connection to a local chain."""
    return _connected(anvil.rpc_url)


@cache
def _connected(url: str) -> Web3:
    return Web3(HTTPProvider(url, request_kwargs={"timeout": 30}))
