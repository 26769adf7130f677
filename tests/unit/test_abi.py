"""Values as contracts take and give them, and addresses: held to eth_abi and eth_utils."""

from typing import Any

import pytest
from eth_abi import abi as theirs_abi
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils import address as theirs
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import abi
from eigentensor.addresses import is_address, is_checksum_address, to_checksum_address
from eigentensor.chain.contracts import NAMES
from eigentensor.chain.contracts import abi as abi_of

Typed = tuple[str, st.SearchStrategy[Any]]


def _numbers(bits: int) -> Typed:
    return f"uint{bits}", st.integers(0, (1 << bits) - 1)


def _signed(bits: int) -> Typed:
    return f"int{bits}", st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def _bytes(size: int) -> Typed:
    return f"bytes{size}", st.binary(min_size=size, max_size=size)


_BITS = st.integers(1, 32).map(lambda n: 8 * n)
_WORDS: st.SearchStrategy[Typed] = st.one_of(
    _BITS.map(_numbers), _BITS.map(_signed), st.integers(1, 32).map(_bytes),
    st.just(("bool", st.booleans())), st.just(("string", st.text())), st.just(("bytes", st.binary(max_size=99))),
    st.just(("address", st.binary(min_size=20, max_size=20).map(to_checksum_address))),
)  # fmt: skip


def _list(item: Typed) -> Typed:
    return f"{item[0]}[]", st.lists(item[1], max_size=3).map(tuple)


def _fixed(item: Typed) -> Typed:
    return f"{item[0]}[2]", st.tuples(item[1], item[1])


def _struct(members: list[Typed]) -> Typed:
    return f"({','.join(name for name, _ in members)})", st.tuples(*(values for _, values in members))


_TYPES = st.recursive(
    _WORDS, lambda types: types.map(_list) | types.map(_fixed) | st.lists(types, min_size=1, max_size=3).map(_struct)
)


@st.composite
def _arguments(draw: st.DrawFn) -> tuple[list[str], list[Any]]:
    typed = draw(st.lists(_TYPES, max_size=3))
    return [name for name, _ in typed], [draw(values) for _, values in typed]


def _lowered(value: Any) -> Any:
    """With addresses as eth_abi gives them."""
    if isinstance(value, tuple):
        return tuple(map(_lowered, value))
    return value.lower() if isinstance(value, str) and is_checksum_address(value) else value


@given(_arguments())
def test_values_are_written_and_read_as_eth_abi_does(arguments: tuple[list[str], list[Any]]) -> None:
    types, values = arguments
    data = abi.encode(types, values)
    assert data == theirs_abi.encode(types, values)
    assert abi.decode(types, data) == tuple(values)
    assert _lowered(abi.decode(types, data)) == _lowered(theirs_abi.decode(types, data))


@given(_arguments(), st.data())
def test_of_damaged_bytes_nothing_is_read_that_eth_abi_reads_otherwise(
    arguments: tuple[list[str], list[Any]], choices: st.DataObject
) -> None:
    types, values = arguments
    data = bytearray(abi.encode(types, values))
    for _ in range(choices.draw(st.integers(1, 3))):
        if data:
            at = choices.draw(st.integers(0, len(data) - 1))
            data[at] = choices.draw(st.sampled_from((0, 1, 32, 64, 96, 255)))
    damaged = bytes(data[: choices.draw(st.integers(0, len(data)))]) if choices.draw(st.booleans()) else bytes(data)
    try:
        mine = abi.decode(types, damaged)
    except ValueError:
        with pytest.raises((DecodingError, ValueError, OverflowError, AssertionError)):
            # What has one form, both read.
            assert theirs_abi.encode(types, theirs_abi.decode(types, damaged)) == damaged
        return
    assert _lowered(mine) == _lowered(theirs_abi.decode(types, damaged))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("uint8", 256), ("uint8", -1), ("uint256", 1 << 256), ("uint8", True), ("uint8", "1"), ("int8", 128),
        ("int8", -129), ("bool", 1), ("address", "0x12"), ("address", 7), ("bytes4", b"abc"), ("bytes4", "0x00000000"),
        ("bytes", "ab"), ("string", b"ab"), ("uint8[]", 5), ("uint8[]", b"ab"), ("uint8[2]", (1,)),
        ("(bool,bool)", (True,)),
    ],
)  # fmt: skip
def test_values_of_other_types_are_not_written(kind: str, wrong: Any) -> None:
    with pytest.raises(ValueError):
        abi.encode([kind], [wrong])
    if not (kind == "bytes4" and isinstance(wrong, bytes)):  # eth_abi fills up what is too short
        with pytest.raises(EncodingError):
            theirs_abi.encode([kind], [wrong])
    with pytest.raises(ValueError):
        abi.encode([kind], [])


def test_a_list_that_says_to_be_endless_is_refused_at_once() -> None:
    for kind in ("uint256[]", "bytes[]", "(bytes,uint8[])[]"):
        with pytest.raises(ValueError, match="do not fit"):
            abi.decode([kind], (32).to_bytes(32, "big") + b"\xff" * 32)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_messages_are_those_that_eth_utils_makes(name: str) -> None:
    from eth_utils.abi import abi_to_signature, event_abi_to_log_topic

    for entry in abi_of(name):
        if entry["type"] in ("function", "event", "error"):
            assert abi.signature_of(entry) == abi_to_signature(entry)  # type: ignore[arg-type]
        if entry["type"] == "event":
            assert abi.topic_of(entry) == event_abi_to_log_topic(entry)  # type: ignore[arg-type]


@given(st.binary(min_size=20, max_size=20))
def test_addresses_have_the_checksums_of_eth_utils(raw: bytes) -> None:
    address = to_checksum_address(raw)
    assert address == theirs.to_checksum_address(raw) and is_checksum_address(address)
    for text in (raw.hex(), raw.hex().upper(), "0x" + raw.hex(), "0x" + raw.hex().upper()):
        assert is_address(text) and to_checksum_address(text) == address
        assert is_checksum_address(text) == theirs.is_checksum_address(text)


@pytest.mark.parametrize(
    "wrong", ["", "0x", "0x" + "g" * 40, "0x" + "0" * 39, "0x" + "0" * 41, None, 7, [], "0x" + "0" * 40 + "\n"]
)
def test_what_is_no_address_is_none(wrong: Any) -> None:
    assert not is_address(wrong) and not is_checksum_address(wrong) and not theirs.is_address(wrong)
    if isinstance(wrong, str):
        with pytest.raises(ValueError, match="no address"):
            to_checksum_address(wrong)
