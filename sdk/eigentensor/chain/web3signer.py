"""Keys in a web3signer (mode eth1), by its REST interface: it hashes what it is given, and signs the hash."""

import os
import re
import ssl
from functools import cached_property
from typing import Any

import httpx

from eigentensor import connecting
from eigentensor.addresses import to_checksum_address
from eigentensor.errors import ConfigError, NotSigned, SignerAway
from eigentensor.keccak import keccak

_KEY = re.compile("(?:0x)?(?:04)?([0-9a-fA-F]{128})")
_SIGNATURE = re.compile('"?(?:0x)?([0-9a-fA-F]{64})([0-9a-fA-F]{64})(?:[0-9a-fA-F]{2})?"?')
_CERTIFICATE = "EIGENTENSOR_SIGNER_CERTIFICATE"
_MOST = 1 << 20  # bytes of an answer that are read
_KEYS = 10_000
_AWAY = (408, 425, 429, 500, 502, 503, 504)


class Web3Signer:
    """One server. $EIGENTENSOR_SIGNER_CERTIFICATE names a PEM file with the certificate and the key that it wants to
    see of its clients, if it does; $SSL_CERT_FILE the authority of its own."""

    def __init__(self, url: str, *, timeout: float = 5) -> None:
        """Raises ConfigError for a certificate that cannot be read."""
        self._url, self._timeout = url.rstrip("/"), timeout
        self._identifiers: dict[str, str] = {}

    @cached_property
    def _context(self) -> ssl.SSLContext | bool:
        if not self._url.startswith("https:"):
            return True
        context = httpx.create_ssl_context()
        if path := os.environ.get(_CERTIFICATE):
            try:
                context.load_cert_chain(path)
            except (OSError, ssl.SSLError) as error:
                fix = "It is a PEM file with a certificate and its key."
                raise ConfigError(f"{_CERTIFICATE}: {path} cannot be used: {error}", fix=fix) from None
        return context

    def accounts(self) -> list[str]:
        """See `Vault`."""
        text = self._answer("GET", "publicKeys")
        try:
            keys: Any = httpx.Response(200, text=text).json()
            found = [_KEY.fullmatch(key) for key in keys[:_KEYS]]
            self._identifiers = {
                _account(one[1]): key for one, key in zip(found, keys, strict=False) if one is not None
            }
        except (ValueError, TypeError, KeyError, RecursionError):
            raise NotSigned("the web3signer's list of keys is none", fix="It must run in mode eth1.") from None
        return list(self._identifiers)

    def signature(self, account: str, message: bytes) -> tuple[bytes, bytes]:
        """See `Vault`."""
        if account not in self._identifiers and account not in self.accounts():
            raise NotSigned(f"the web3signer has no key of {account}", fix="Load it there, or name another account.")
        text = self._answer("POST", f"sign/{self._identifiers[account]}", {"data": "0x" + message.hex()})
        if (parts := _SIGNATURE.fullmatch(text.strip())) is None:
            raise NotSigned("what the web3signer answered is no signature", fix="It must run in mode eth1.")
        return bytes.fromhex(parts[1]), bytes.fromhex(parts[2])

    def _answer(self, method: str, path: str, body: dict[str, str] | None = None) -> str:
        try:
            # Signatures are rare, and their caller may be any thread: no connection is kept for the next one.
            url = f"{self._url}/api/v1/eth1/{path}"
            with (
                connecting.client(url, timeout=self._timeout, verify=self._context) as http,
                http.stream(method, url, json=body) as response,
            ):
                content = bytearray()
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > _MOST:
                        raise NotSigned("the web3signer answers more than a signature")
        except httpx.HTTPError as error:
            raise SignerAway(f"the web3signer does not answer: {error or type(error).__name__}") from None
        text = content.decode("utf-8", "replace")
        if response.status_code in _AWAY:
            raise SignerAway(f"the web3signer cannot sign now: status {response.status_code}")
        if response.status_code != httpx.codes.OK:
            if response.status_code == httpx.codes.NOT_FOUND:
                self._identifiers.clear()  # the key may have been loaded anew, under another name
            raise NotSigned(f"the web3signer refuses: status {response.status_code}, {text[:200]!r}")
        return text


def _account(key: str) -> str:
    return to_checksum_address(keccak(bytes.fromhex(key))[-20:])
