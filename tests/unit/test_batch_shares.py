"""What an operator's endpoint says of a share: it counts where it leads to what the chain has, and may be anything."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from eigentensor import merkle
from eigentensor.channel import CallProof, Line, events, lines_root, nonce_of, open_line, task_of
from eigentensor.channel.life import BatchLife
from eigentensor.channel.shown import ShareRequest, ShownCall, ShownShare
from eigentensor.channel.state import BatchState
from eigentensor.economics import WAD
from eigentensor.errors import (
    BindingError,
    BlobCorrupt,
    BlobTooLarge,
    EigenTensorError,
    GatewayError,
    TaskError,
    WrongReceipt,
)
from eigentensor.store import LocalStore
from eigentensor.store.parts import encode_bound
from eigentensor.task import Place
from eigentensor_operator.batches import fetching
from eigentensor_operator.batches.fetching import Endpoint, Placed, placed
from support.stories.batches import CHANNEL, MIX, OFFER, PRICE, an_order
from support.stories.operator import DOMAIN, PARAMETERS

CALLS = 12
BATCH = b"\xba" * 32
ORDERS = [replace(an_order(), nonce=nonce_of(i, 7), variables=merkle.variables_root({})) for i in range(CALLS)]
RESULTS = [merkle.result_of(bytes([index + 1]) * 32) for index in range(CALLS)]
LEAVES = [merkle.call_hash(CHANNEL, i, task_of(DOMAIN, ORDERS[i]), RESULTS[i]) for i in range(CALLS)]
LINE = Line(CHANNEL, merkle.tree_root(LEAVES), 0, CALLS, 0, CALLS * PRICE)
LIFE = BatchLife(
    BATCH, 1, replace(OFFER, check_rate=WAD // 2), PARAMETERS, BatchState.COMMITTED, committed_at=5,
    root=lines_root([LINE]), leaves=CALLS, amount=CALLS * PRICE, lines=(LINE,), mix=MIX,
)  # fmt: skip


def shown(share: int = 0) -> ShownShare:
    """As its operator shows it."""
    calls = tuple(
        ShownCall(0, number, ORDERS[number], {}, RESULTS[number], tuple(merkle.path(LEAVES, number)))
        for number in LIFE.numbers(share)
    )
    return ShownShare(BATCH, share, (open_line([LINE], 0),), calls)


def test_a_share_that_leads_to_the_batch_is_placed_and_its_calls_can_be_disputed() -> None:
    calls = placed(shown(), LIFE, DOMAIN)
    assert [call.number for call in calls] == list(LIFE.numbers(0)) and len(calls) == 3
    number = calls[1].number
    place = calls[1].place(LIFE, bytes([number + 1]) * 32)
    assert LIFE.root is not None and place.leads_to(LIFE.root, DOMAIN) and place.is_named()


def test_a_call_that_was_shown_on_chain_can_be_disputed_without_its_operator() -> None:
    values = {"rows": 3, "start": -1}
    order = replace(ORDERS[7], variables=merkle.variables_root(values))
    proof = CallProof(7, task_of(DOMAIN, order), bytes([8]) * 32, ())
    event = events.Shown(Place(9, 0, b"", b""), BATCH, 7, order, encode_bound(values), proof)
    call = Placed.shown_by(event, LIFE)
    assert (call.number, call.position, call.task) == (7, 0, proof.order)
    assert call.shown.variables == values and call.shown.result == RESULTS[7]
    place = Placed.shown_by(replace(event, order=ORDERS[7], variables=b"", call=shown_proof(7)), LIFE)
    assert LIFE.root is not None and place.place(LIFE, bytes([8]) * 32).leads_to(LIFE.root, DOMAIN)
    for wrong in (b"\0", b"\1\xff\0\0\0\1", b"\1b\0\0\0\1\1a\0\0\0\1", b"\1a" + bytes(5)):
        with pytest.raises(BindingError):
            Placed.shown_by(replace(event, variables=wrong), LIFE)


def shown_proof(number: int) -> CallProof:
    task, path = task_of(DOMAIN, ORDERS[number]), tuple(merkle.path(LEAVES, number))
    return CallProof(number, task, bytes([number + 1]) * 32, path)


def test_a_share_that_does_not_is_refused() -> None:
    share = shown()
    first = share.calls[0]
    for wrong in (
        replace(share, calls=share.calls[:-1]),
        replace(share, batch=b"\xbb" * 32),
        replace(share, calls=share.calls[::-1]),
        replace(share, calls=(replace(first, result=b"\1" * 32), *share.calls[1:])),
        replace(share, calls=(replace(first, path=first.path[:-1]), *share.calls[1:])),
        replace(share, calls=(replace(first, index=(first.index + 1) % CALLS), *share.calls[1:])),
        replace(share, calls=(replace(first, order=replace(first.order, repeat=2)), *share.calls[1:])),
        replace(share, calls=(replace(first, variables={"n": 1}), *share.calls[1:])),
    ):
        with pytest.raises(WrongReceipt):
            placed(wrong, LIFE, DOMAIN)


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """A server that gives everybody the same answer; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"", GatewayError),
        (200, b"\xff\xfe{", GatewayError),
        (200, b"[" * 100_000, GatewayError),
        (200, b"[]", TaskError),
        (200, b'{"schema": "eigentensor.share/1", "calls": 7}', TaskError),
        (404, b"{}", GatewayError),
        (302, b"", GatewayError),
    ],
)
def test_an_endpoint_that_answers_nonsense_is_an_error_and_nothing_else(
    tmp_path: Path, status: int, body: bytes, error: type[EigenTensorError]
) -> None:
    with answering(status, body, Location="http://127.0.0.1:9/") as url:
        endpoint = Endpoint(url, LocalStore(tmp_path), 1 << 10)
        with pytest.raises(error):
            endpoint.share(ShareRequest(BATCH, 0), b"\0" * 65)
        endpoint.close()


def test_blobs_of_an_endpoint_are_what_their_names_say_and_no_larger_than_is_taken(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with answering(200, b"x" * 100) as url:
        endpoint = Endpoint(url, store, 1 << 10)
        with pytest.raises(BlobCorrupt):
            endpoint.fetch(b"\1" * 32)
        assert not list(store)
        name = LocalStore(tmp_path / "other").put(b"x" * 100)
        assert endpoint.fetch(name).read_bytes() == b"x" * 100
        endpoint.close()
        small = Endpoint(url, LocalStore(tmp_path / "small"), 99)
        with pytest.raises(BlobTooLarge):
            small.fetch(name)
        small.close()


def test_an_endpoint_that_trickles_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SLOW", (-1.0, 1 << 40))
    with answering(200, b"x" * 100) as url:
        endpoint = Endpoint(url, LocalStore(tmp_path), 1 << 10)
        with pytest.raises(GatewayError, match="sent 0 bytes"):
            endpoint.fetch(b"\1" * 32)
        endpoint.close()


def test_an_endpoint_that_is_away_or_none_is_an_error(tmp_path: Path) -> None:
    for url in ("ftp://127.0.0.1", "file:///etc/passwd", ""):
        with pytest.raises(GatewayError):
            Endpoint(url, LocalStore(tmp_path), 1)
    for url in ("http://127.0.0.1:1", "http://[", "http://\x00"):
        endpoint = Endpoint(url, LocalStore(tmp_path), 1)
        with pytest.raises(GatewayError):
            endpoint.fetch(b"\1" * 32)
        endpoint.close()
