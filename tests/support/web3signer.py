"""A process that speaks web3signer's protocol (mode eth1), as its documentation has it: not ours, and none of our code.

`python -m support.web3signer KEY…` serves keys in hex on a free port, which it prints. `PUT /trouble` with a word makes
it fail: `busy` (500), `slow`, `refuses`, `another` (signs by another key), `nonsense`, or `none`; a word of hex refuses
what contains these bytes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import httpx
from eth_hash.auto import keccak
from eth_keys.datatypes import PrivateKey

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
ANOTHER = PrivateKey(b"\7" * 32)


class _Handler(BaseHTTPRequestHandler):
    keys: ClassVar[dict[str, PrivateKey]]
    trouble: ClassVar[list[str]] = ["none"]
    asked: ClassVar[list[int]] = [0]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/api/v1/eth1/publicKeys":
            self._answer(200, json.dumps(list(self.keys)))
        elif self.path == "/asked":
            self._answer(200, str(self.asked[0]))
        else:
            self._answer(404, "")

    def do_PUT(self) -> None:
        self.trouble[0] = self._body().decode()
        self._answer(200, "")

    def do_POST(self) -> None:
        data, trouble = json.loads(self._body())["data"], self.trouble[0]
        self.asked[0] += 1
        key = self.keys.get(self.path.removeprefix("/api/v1/eth1/sign/"))
        if trouble == "slow":
            time.sleep(30)
        if key is None:
            return self._answer(404, "Public Key not found")
        if trouble in ("busy", "refuses") or trouble in data:
            return self._answer(500 if trouble == "busy" else 403, trouble)
        if trouble == "nonsense":
            return self._answer(200, "0x1234")
        digest = keccak(bytes.fromhex(data.removeprefix("0x")))
        signature = (ANOTHER if trouble == "another" else key).sign_msg_hash(digest)
        s, v = signature.s, signature.v
        if self.asked[0] % 2:  # what signs need not choose the smaller s
            s, v = ORDER - s, 1 - v
        words = (signature.r.to_bytes(32, "big"), s.to_bytes(32, "big"), bytes((27 + v,)))
        self._answer(200, "0x" + b"".join(words).hex())

    def log_request(self, *_: Any) -> None:
        pass

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


class Signing:
    """The process, from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def trouble(self, word: str) -> None:
        """From now on."""
        httpx.put(f"{self.url}/trouble", content=word)

    @property
    def asked(self) -> int:
        """How often it was asked to sign."""
        return int(httpx.get(f"{self.url}/asked").text)


@contextmanager
def web3signer(keys: Sequence[bytes]) -> Iterator[Signing]:
    """One that has these keys."""
    command = [sys.executable, "-m", "support.web3signer", *(key.hex() for key in keys)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))}
    ) as process:
        try:
            assert process.stdout is not None
            yield Signing(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


if __name__ == "__main__":
    made = [PrivateKey(bytes.fromhex(word)) for word in sys.argv[1:]]
    _Handler.keys = {key.public_key.to_hex(): key for key in made}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
