"""moto's server, whose KMS signs a digest that it is given: by itself it hashes it once more, whatever it is told."""

import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from moto.kms.utils import ECDSAPrivateKey
from moto.server import main


def _sign(key: ECDSAPrivateKey, message: bytes, signing_algorithm: str) -> bytes:
    assert signing_algorithm == "ECDSA_SHA_256", signing_algorithm
    return key.private_key.sign(message, ec.ECDSA(Prehashed(hashes.SHA256())))


if __name__ == "__main__":
    ECDSAPrivateKey.sign = _sign  # type: ignore[method-assign, assignment]
    main(sys.argv[1:])
