"""Signatures: who signs, a key in memory, and who signed. By libsecp256k1, for those who sign or check each call."""

from typing import TYPE_CHECKING, Protocol

from eigentensor.addresses import to_checksum_address
from eigentensor.keccak import keccak

if TYPE_CHECKING:
    from coincurve import PublicKey

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of the curve's group
_HALF = _ORDER // 2  # the largest s of a signature that chains and contracts take (EIP-2)
_PARITY = 27  # of the last byte, before the parity of a point


class Signer(Protocol):
    """An account and what signs for it: a key in memory, or one that never leaves where it is kept."""

    @property
    def address(self) -> str:
        """With its checksum."""

    def sign(self, message: bytes) -> bytes:
        """The signature of a message's Keccak-256, 65 bytes: transactions and typed data are such messages. Raises
        NotSigned where a key is elsewhere and does not sign."""


class Key:
    """A secret key. Never shows itself."""

    def __init__(self, secret: bytes) -> None:
        """Raises ValueError unless the 32 bytes are a key."""
        from coincurve import PrivateKey

        if len(secret) != 32:
            raise ValueError(f"{len(secret)} bytes are no key")
        self._key = PrivateKey(secret)
        self.address = to_checksum_address(_account(self._key.public_key))
        """With its checksum."""

    def __repr__(self) -> str:
        return f"<Key of {self.address}>"

    @property
    def secret(self) -> bytes:
        """The 32 bytes, for who keeps them."""
        return self._key.secret

    def sign(self, message: bytes) -> bytes:
        """The signature of a message's hash, 65 bytes, the same each time."""
        signature = self._key.sign_recoverable(keccak(message), hasher=None)
        return signature[:64] + bytes((_PARITY + signature[64],))


def normal(r: bytes, s: bytes) -> tuple[bytes, bytes]:
    """Both signatures that r and s may be, in the form that chains take: the key decides which it is."""
    number = int.from_bytes(s, "big")
    both = r + min(number, abs(_ORDER - number)).to_bytes(32, "big")
    return both + bytes((_PARITY,)), both + bytes((_PARITY + 1,))


def recover(digest: bytes, signature: bytes) -> str | None:
    """The signer of a hash; None if the signature is malformed, or the second one that anybody can make of another."""
    account = _recover(digest, signature)
    return None if account is None else str(to_checksum_address(account))


def is_signed_by(account: str, digest: bytes, signature: bytes) -> bool:
    """Whether an account signed a hash: as `recover` says, in less time."""
    return _recover(digest, signature) == bytes.fromhex(account[2:])


def _recover(digest: bytes, signature: bytes) -> bytes | None:
    from coincurve import PublicKey  # who only reads verifies no signature, and does not wait for it

    if len(signature) != 65 or signature[64] - _PARITY not in (0, 1):
        return None
    if int.from_bytes(signature[32:64], "big") > _HALF:
        return None
    compact = signature[:64] + bytes((signature[64] - _PARITY,))
    try:
        return _account(PublicKey.from_signature_and_message(compact, digest, hasher=None))
    except ValueError:
        return None


def _account(key: "PublicKey") -> bytes:
    return keccak(key.format(compressed=False)[1:])[-20:]
