"""How a URL is reached: by the environment's proxies, and this machine itself by none."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest

from eigentensor import connecting
from eigentensor.errors import ConfigError

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def answering(text: bytes) -> Iterator[str]:
    """Where everything that is asked, also of a proxy, is answered so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_this_machine_is_reached_by_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(b"by the proxy") as proxy, answering(b"directly") as here:
        for name in NAMES[:3]:
            monkeypatch.setenv(name, proxy)
        for url in (here, here.replace("127.0.0.1", "localhost")):
            with connecting.client(url) as http:
                assert http.get(url).text == "directly"
        with connecting.client("http://elsewhere.test") as http:
            assert http.get("http://elsewhere.test").text == "by the proxy"


@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:1", "ftp://127.0.0.1:1", "http://127.0.0.1:x"])
def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError, match="the proxy that the environment names cannot be used"):
        connecting.client("http://127.0.0.1:8545")


def test_certificates_are_read_where_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    made = httpx.Client

    def client(**options: object) -> httpx.Client:
        seen.append(options["verify"])
        return made()

    monkeypatch.setattr(httpx, "Client", client)
    for url in ("http://127.0.0.1:1", "https://127.0.0.1:1"):
        connecting.client(url)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    connecting.client("http://127.0.0.1:1")
    connecting.client("http://127.0.0.1:1", verify=False)
    assert seen == [False, True, True, False]
