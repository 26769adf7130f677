"""Keccak-256, by which the chain names things."""

try:
    from sha3 import keccak_256  # eth_hash, which wraps it, reads the metadata of distributions when it is imported
except ImportError:  # there are no wheels of it but for Linux
    from Crypto.Hash import keccak as _keccak

    def keccak_256(data: bytes | bytearray) -> _keccak.Keccak_Hash:
        """The hash with its rest still open."""
        return _keccak.new(data=data, digest_bits=256)


def keccak(data: bytes | bytearray) -> bytes:
    """The hash of some bytes: 32 bytes."""
    digest: bytes = keccak_256(data).digest()
    return digest
