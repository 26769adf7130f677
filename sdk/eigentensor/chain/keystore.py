"""V3 keystores: a key that a password hides, in JSON, as other tools write and open it."""

import hashlib
import hmac
import json
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from eigentensor.keccak import keccak
from eigentensor.task.signatures import Key

_DERIVED = 32  # bytes: a key of AES-128, and what authenticates
_SCRYPT = {"n": 1 << 18, "r": 8, "p": 1}
_MEMORY = 1 << 30  # bytes that a keystore may ask for when it is opened
_ROUNDS = 10_000_000  # of PBKDF2


def encrypted(key: Key, password: str, iterations: int | None = None) -> str:
    """The text of a new keystore, by scrypt. `iterations` of PBKDF2 instead make a weak one, quickly."""
    salt, iv = secrets.token_bytes(16), secrets.token_bytes(16)
    kdf = "scrypt" if iterations is None else "pbkdf2"
    chosen = _SCRYPT if iterations is None else {"c": iterations, "prf": "hmac-sha256"}
    parameters = {"dklen": _DERIVED, "salt": salt.hex(), **chosen}
    derived = _derived(kdf, parameters, password)
    ciphertext = _aes(derived, iv, key.secret)
    crypto = {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": iv.hex()},
        "ciphertext": ciphertext.hex(),
        "kdf": kdf,
        "kdfparams": parameters,
        "mac": _mac(derived, ciphertext).hex(),
    }
    address = key.address[2:].lower()
    return json.dumps({"address": address, "crypto": crypto, "id": str(uuid.uuid4()), "version": 3})


def decrypted(text: str, password: str) -> Key:
    """The key of a keystore. Raises ValueError for what is none, and for another password."""
    try:
        content = {name.lower(): value for name, value in json.loads(text).items()}
        crypto = content["crypto"]
        if content["version"] != 3 or crypto["cipher"] != "aes-128-ctr":
            raise ValueError("it is of another version or cipher")
        derived = _derived(crypto["kdf"], crypto["kdfparams"], password)
        ciphertext = bytes.fromhex(crypto["ciphertext"])
        if not hmac.compare_digest(_mac(derived, ciphertext), bytes.fromhex(crypto["mac"])):
            raise ValueError("the password is another one")
        secret = _aes(derived, bytes.fromhex(crypto["cipherparams"]["iv"]), ciphertext)
    except (TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no V3 keystore: {error!r}") from None
    return Key(secret.rjust(32, b"\0"))


def _derived(kdf: str, parameters: Mapping[str, Any], password: str) -> bytes:
    """Raises ValueError for a way that is not known, or that takes more than any keystore needs."""
    salt, size = bytes.fromhex(parameters["salt"]), parameters["dklen"]
    if size != _DERIVED:
        raise ValueError(f"it derives {size} bytes, not {_DERIVED}")
    if kdf == "scrypt":
        n, r, p = (parameters[name] for name in "nrp")
        if 128 * n * r * p > _MEMORY:
            raise ValueError("it takes more than 1 GiB to open")
        return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, dklen=size, maxmem=2 * _MEMORY - 1)
    if kdf == "pbkdf2" and parameters["prf"] == "hmac-sha256":
        if parameters["c"] > _ROUNDS:
            raise ValueError(f"it takes more than {_ROUNDS:,} rounds to open")
        return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, parameters["c"], size)
    raise ValueError(f"{kdf!r} is no way from a password to a key that is known here")


def _aes(derived: bytes, iv: bytes, data: bytes) -> bytes:
    """Hides what is plain, and the reverse."""
    from Crypto.Cipher import AES  # where no keystore is opened, nobody waits for it

    return AES.new(derived[:16], AES.MODE_CTR, nonce=b"", initial_value=iv).encrypt(data)


def _mac(derived: bytes, ciphertext: bytes) -> bytes:
    return keccak(derived[16:] + ciphertext)
