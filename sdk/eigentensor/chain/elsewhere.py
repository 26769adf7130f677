"""Keys that never leave where they are kept: a web3signer, a key management service. What they sign is checked here.

Such a key is named by a URL whose last part may be its account: `https://signer.example:9000/0x…` for a web3signer
(mode eth1), `kms://REGION/KEY/0x…` for a key of AWS KMS. With its account nothing is asked before it signs.
"""

from typing import Protocol
from urllib.parse import urlsplit

import stamina

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.errors import ConfigError, NotSigned, SignerAway
from eigentensor.keccak import keccak
from eigentensor.task.signatures import normal, recover

_SCHEMES = ("http", "https", "kms")
_TRIES = 4  # of a signer that is away; the same message may be signed twice, which harms nobody


class Vault(Protocol):
    """Where keys are kept. Its messages are those of `Signer`."""

    def accounts(self) -> list[str]:
        """Whose keys it has. Raises NotSigned."""

    def signature(self, account: str, message: bytes) -> tuple[bytes, bytes]:
        """r and s, 32 bytes each, of a message's Keccak-256. Raises NotSigned; SignerAway where it may pass."""


class Elsewhere:
    """A signer whose key is in a vault."""

    def __init__(self, vault: Vault, address: str, name: str) -> None:
        """`name` says in errors where the key is."""
        self._vault, self._name = vault, name
        self.address = address
        """With its checksum."""

    def __repr__(self) -> str:
        return f"<Signer {self.address} at {self._name}>"

    def sign(self, message: bytes) -> bytes:
        """See `Signer`. Tries again, for some seconds at most, while the vault is away."""
        attempts = stamina.retry_context(
            SignerAway, attempts=_TRIES, wait_initial=0.1, wait_max=2, wait_jitter=0.1, timeout=20
        )
        for attempt in attempts:
            with attempt:
                r, s = self._vault.signature(self.address, message)
        digest = keccak(message)
        for signature in normal(r, s):
            if recover(digest, signature) == self.address:
                return signature
        raise NotSigned(
            f"what {self._name} signed is not signed by {self.address}",
            fix="Look at which key it has: nothing was sent.",
        )


def is_elsewhere(text: str) -> bool:
    """Whether this names a key that is elsewhere."""
    return text.partition("://")[0] in _SCHEMES and "://" in text


def account_in(text: str) -> str:
    """Whose key a URL names; "" where it does not say."""
    account = urlsplit(text).path.rpartition("/")[2]
    return to_checksum_address(account) if is_address(account) else ""


def signer_at(text: str) -> Elsewhere:
    """The signer that a URL names. Raises ConfigError for a URL that is none; where no account stands in it, NotSigned,
    and ConfigError if there is not one alone."""
    account = account_in(text)
    place = text.rpartition("/")[0] if account else text.rstrip("/")
    vault, name = _vault(place)
    if not account:
        found = vault.accounts()
        if len(found) != 1:
            named = ", ".join(found[:8]) or "none"
            raise ConfigError(f"{name} has {len(found)} keys: {named}", fix=f"Name one of them: {place}/0x…")
        (account,) = found
    return Elsewhere(vault, account, name)


def _vault(place: str) -> tuple[Vault, str]:
    scheme, _, rest = place.partition("://")
    return _kms(rest) if scheme == "kms" else _web3signer(place), shown(place)


def shown(named: str) -> str:
    """What names a key, without the password that may stand in a URL."""
    scheme, colon, rest = named.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if colon else named


def _web3signer(place: str) -> Vault:
    from eigentensor.chain.web3signer import Web3Signer

    if not urlsplit(place).hostname:
        raise ConfigError(f"{shown(place)} names no host", fix="Name a web3signer by its URL: https://HOST:PORT.")
    return Web3Signer(place)


def _kms(rest: str) -> Vault:
    from eigentensor.chain.kms import Kms

    region, _, key = rest.partition("/")
    if not key:
        raise ConfigError(
            f"kms://{rest} names no key", fix="A key of AWS KMS is kms://REGION/KEY: its id, ARN or alias."
        )
    return Kms(region, key)
