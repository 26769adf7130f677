"""Whatever a gateway answers: who asks it gets an error of the tree, or what was asked for."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.errors import EigenTensorError, GatewayError
from eigentensor.reexecution.inputs import fetch_bound, fetch_results
from eigentensor.store import GatewayClient, LocalStore
from support.generated.programs import generate
from support.hostile.gateway import ANSWERS, FILES, Hostile, answer, hostile, tensor_file
from support.stories.orders import ORDER

ROOT = b"\7" * 32
LARGE = bytes(merkle.PIECE + 1)
Ask = Callable[[GatewayClient], Any]
ASKED: dict[str, Ask] = {
    "a blob": lambda gateway: gateway.fetch(ROOT),
    "whether it is there": lambda gateway: gateway.has(ROOT),
    "its names": lambda gateway: gateway.names(ROOT),
    "results": lambda gateway: fetch_results(gateway, generate(0).program, ROOT),
    "what an order names": lambda gateway: fetch_bound(gateway, replace(ORDER, program=ROOT)),
    "the network": lambda gateway: gateway.network(),
    "to take a blob": lambda gateway: gateway.upload(gateway.store.put(b"small")),
    "to take a large blob": lambda gateway: gateway.upload(gateway.store.put(LARGE)),
    "to take a refusal": lambda gateway: gateway.decline(ROOT, {}),
    "a task": lambda gateway: gateway.task(ROOT),
}


@pytest.fixture(scope="module")
def listening() -> Iterator[Hostile]:
    with hostile() as gateway:
        yield gateway


@pytest.fixture
def gateway(listening: Hostile) -> Hostile:
    listening.raw, listening.file, listening.lacking = b"", None, False
    return listening


def ask(gateway: Hostile, *questions: Ask) -> None:
    """Each comes back with an error of the tree, or with something."""
    for question in questions:
        with TemporaryDirectory() as folder, GatewayClient(gateway.url, LocalStore(Path(folder)), attempts=1) as client:
            try:
                question(client)
            except EigenTensorError as error:
                assert error.what and len(error.what) < 10_000


@pytest.mark.parametrize("response", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_none_is_an_error_of_the_tree(gateway: Hostile, response: bytes) -> None:
    gateway.raw = response
    ask(gateway, *ASKED.values())


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_a_blob_that_is_another_is_an_error_of_the_tree(gateway: Hostile, file: bytes) -> None:
    gateway.file = file
    ask(gateway, *ASKED.values())


@pytest.mark.parametrize("status", [301, 302, 304, 307])
def test_a_redirection_is_no_answer(gateway: Hostile, tmp_path: Path, status: int) -> None:
    gateway.raw = answer(status, b"", Location=f"{gateway.url}/elsewhere")
    with GatewayClient(gateway.url, LocalStore(tmp_path), attempts=1) as client, pytest.raises(EigenTensorError):
        client.has(ROOT)


def test_a_gateway_that_takes_nothing_is_not_sent_it_for_ever(gateway: Hostile, tmp_path: Path) -> None:
    gateway.raw, gateway.lacking = answer(200, b'{"received": 0, "complete": false}'), True
    with GatewayClient(gateway.url, LocalStore(tmp_path), attempts=1) as client:
        blob = client.store.put(LARGE)
        with pytest.raises(GatewayError):  # it says so, or ends the connection before
            client.upload(blob)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(ROOT.hex()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
words = ("blob", "size", "pieces", "kind", "computed", "received", "complete", "detail", "fix")
objects = st.dictionaries(st.sampled_from(words), values, max_size=9)
headers = st.dictionaries(
    st.sampled_from(("Content_Encoding", "Content_Type", "Location", "Transfer_Encoding", "Set_Cookie", "Connection")),
    st.sampled_from(("gzip", "deflate", "br", "zstd", "chunked", "identity", "\xff", "http://[", "a=b; expires=0"))
    | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20),
)  # fmt: skip
answers = st.binary(max_size=200) | st.builds(
    lambda status, body, length, named: answer(status, body, length=length, **named),
    st.integers(100, 599),
    objects.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=99),
    st.none() | st.integers(0, 300),
    headers,
)


@settings(max_examples=100)
@given(response=answers, question=st.sampled_from(sorted(ASKED)))
def test_any_answer_is_one_or_an_error_of_the_tree(listening: Hostile, response: bytes, question: str) -> None:
    listening.raw, listening.file = response, None
    ask(listening, ASKED[question])


entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(("F32", "BF16", "BOOL", "F64", "", 7)),
        "shape": st.lists(st.integers(-1, 3) | st.sampled_from((1 << 31, 1 << 47, 1 << 64)), max_size=9),
        "data_offsets": st.lists(st.integers(0, 9) | st.just(1 << 64), min_size=1, max_size=3),
    }
)
files = st.builds(
    tensor_file,
    st.dictionaries(st.text(max_size=9) | st.integers(250, 260).map("x".__mul__), entries | values, max_size=3),
    st.binary(max_size=9),
)


@settings(max_examples=100)
@given(file=files | st.binary(max_size=99), question=st.sampled_from(["a blob", "results", "what an order names"]))
def test_any_file_is_what_was_asked_for_or_an_error_of_the_tree(listening: Hostile, file: bytes, question: str) -> None:
    listening.file = file
    ask(listening, ASKED[question])
