"""Keccak-256, by which the chain names things."""

from sha3 import keccak_256  # eth_hash, which wraps it, reads the metadata of distributions when it is imported


def keccak(data: bytes | bytearray) -> bytes:
    """The hash of some bytes: 32 bytes."""
    digest: bytes = keccak_256(data).digest()
    return digest
