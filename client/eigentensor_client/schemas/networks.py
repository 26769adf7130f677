"""The networks that this machine knows, and the account that pays in one."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.schemas.network import Deployment
from eigentensor.texts import Address, Wei, documented


@documented
class ListedNetwork(TypedDict):
    """A network that can be named."""

    name: str
    """Its name."""
    file: str
    """The file that describes it."""
    rpc_url: NotRequired[str]
    """A node of its chain; left out where the file describes no network."""
    chain_id: NotRequired[int]
    """The chain, as EIP-155 counts; left out where the file describes no network."""
    answers: NotRequired[bool]
    """Whether its node answers; left out where the file describes no network."""
    wrong: NotRequired[str]
    """Why its file describes no network."""


@documented
class Networks(TypedDict):
    """`eigentensor.networks/1`: the networks that can be named."""

    schema: Literal["eigentensor.networks/1"]
    """Says what this object is."""
    networks: list[ListedNetwork]
    """By their names."""


@documented
class Devnet(TypedDict):
    """`eigentensor.devnet/1`: a local network that runs now."""

    schema: Literal["eigentensor.devnet/1"]
    """Says what this object is."""
    rpc_url: str
    """Its node."""
    gateway_url: str
    """Its gateway."""
    network: str
    """The file that describes it."""
    client: Address
    """An account with tokens."""
    operators: list[Address]
    """Its operators."""
    liars: list[Address]
    """Those of them that lie about what they compute."""
    calls: str | None
    """Where the first of them takes paid calls; null: none does."""
    logs: str
    """The folder with what its processes write."""
    deployment: Deployment
    """Its contracts."""


@documented
class Wallet(TypedDict):
    """`eigentensor.wallet/1`: the account that pays, and its money."""

    schema: Literal["eigentensor.wallet/1"]
    """Says what this object is."""
    address: Address
    """The account."""
    key: str
    """Where its key comes from, in words."""
    coins: Wei
    """Wei of the chain's coin, for gas."""
    tokens: Wei
    """Wei of tokens in the wallet."""
    balance: Wei
    """Wei of tokens that are free in the market."""
    held: Wei
    """Wei of tokens that the market holds."""


@documented
class Keystore(TypedDict):
    """`eigentensor.keystore/1`: a key that is kept now."""

    schema: Literal["eigentensor.keystore/1"]
    """Says what this object is."""
    address: Address
    """Its account."""
    keystore: str
    """The file that it is in."""


@documented
class ListedKeystore(TypedDict):
    """A keystore that can be named."""

    name: str
    """Its name in the folder of keystores; its path if it lies elsewhere."""
    file: str
    """The file that it is in."""
    address: NotRequired[Address]
    """Its account; left out where the file does not say it."""
    used: bool
    """Whether it pays."""
    wrong: NotRequired[str]
    """Why the file is no keystore."""


@documented
class Keystores(TypedDict):
    """`eigentensor.keystores/1`: the keys of this user, and which of them pays."""

    schema: Literal["eigentensor.keystores/1"]
    """Says what this object is."""
    folder: str
    """Where those lie that have names."""
    keystores: list[ListedKeystore]
    """By their names; then the one that is used, if it lies elsewhere."""
    pays: str
    """Whose key pays and why, in words."""
