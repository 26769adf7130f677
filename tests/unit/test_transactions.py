"""What goes to the chain and into keystores, held to what other tools write and read."""

import json
from typing import Any, cast

import pytest
import rlp as theirs
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import rlp
from eigentensor.addresses import to_checksum_address
from eigentensor.chain.keys import anvil_account, opened
from eigentensor.chain.keystore import encrypted
from eigentensor.chain.transactions import fields_of, read_transaction, signed
from eigentensor.keccak import keccak
from eigentensor.task.signatures import Key

STRINGS = st.binary(max_size=70) | st.integers(50, 300).map(bytes)
ITEMS: st.SearchStrategy[Any] = st.recursive(STRINGS, lambda items: st.lists(items, max_size=6), max_leaves=20)
WORDS = st.integers(0, 2**256 - 1)
FIELDS = st.fixed_dictionaries(
    {
        "chainId": st.integers(1, 2**64), "nonce": st.integers(0, 2**63), "maxPriorityFeePerGas": WORDS,
        "maxFeePerGas": WORDS, "gas": st.integers(0, 2**64), "to": st.binary(min_size=20, max_size=20),
        "value": WORDS, "input": st.binary(max_size=300), "accessList": st.just(()),
    }
)  # fmt: skip


@given(ITEMS)
def test_items_are_written_and_read_as_by_others(item: Any) -> None:
    assert rlp.encode(item) == theirs.encode(item)
    assert rlp.decode(rlp.encode(item)) == item


@given(st.binary(max_size=80) | ITEMS.map(theirs.encode).flatmap(
    lambda data: st.tuples(st.integers(0, max(0, len(data) - 1)), st.binary(max_size=3)).map(
        lambda cut: data[: cut[0]] + cut[1] + data[cut[0] + len(cut[1]) :]
    )
))  # fmt: skip
def test_bytes_that_others_refuse_are_refused(data: bytes) -> None:
    try:
        expected = theirs.decode(data)
    except theirs.exceptions.RLPException:
        with pytest.raises(ValueError):
            rlp.decode(data)
    else:
        assert rlp.decode(data) == expected


def test_lists_that_are_nested_too_deep_are_refused() -> None:
    with pytest.raises(ValueError, match="too deep"):
        rlp.decode(bytes(range(0xC0 + 30, 0xC0 - 1, -1)))


@given(FIELDS)
def test_a_transaction_is_signed_as_by_others(fields: dict[str, Any]) -> None:
    key = anvil_account(3)
    raw = signed(fields, key)
    named = {n: v for n, v in fields.items() if n not in ("input", "to")}
    receiver = to_checksum_address(fields["to"])
    other = Account.sign_transaction({**named, "to": receiver, "data": fields["input"], "type": 2}, key.secret)
    assert raw == bytes(other.raw_transaction) and keccak(raw) == bytes(other.hash)
    assert fields_of(raw) == fields | {"accessList": []}
    read = read_transaction(raw)
    assert (read.sender, read.to, read.data) == (key.address, receiver, fields["input"])


@pytest.mark.parametrize("iterations", [None, 3])
def test_others_open_our_keystores_and_we_open_theirs(iterations: int | None) -> None:
    key = Key(b"\0" + b"\x5a" * 31)
    ours = encrypted(key, "sécret", iterations)
    assert bytes(Account.decrypt(ours, "sécret")) == key.secret
    kdf: Any = "scrypt" if iterations is None else "pbkdf2"
    other = json.dumps(cast(Any, Account.encrypt(key.secret, "sécret", kdf=kdf, iterations=iterations or 1 << 12)))
    assert opened(other, "sécret").address == key.address
    assert json.loads(ours).keys() == json.loads(other).keys()
    with pytest.raises(ValueError, match="another one"):
        opened(other, "secret")


@pytest.mark.parametrize(
    "change",
    [
        {"kdf": "argon2"}, {"cipher": "aes-256-ctr"}, {"mac": 7}, {"ciphertext": "xx"}, {"cipherparams": {"iv": ""}},
        {"kdfparams": {"dklen": 32, "c": 1 << 60, "prf": "hmac-sha256", "salt": "00"}},
        {"kdfparams": {"dklen": 32, "c": "many", "prf": "hmac-sha256", "salt": "00"}},
        {"kdf": "scrypt", "kdfparams": {"dklen": 32, "n": 1 << 40, "r": 8, "p": 1, "salt": "00"}},
        {"kdf": "scrypt", "kdfparams": {"dklen": 32, "n": 7, "r": 8, "p": 1, "salt": "00"}},
    ],
)  # fmt: skip
def test_what_is_no_keystore_is_refused_before_it_takes_memory_or_time(change: dict[str, Any]) -> None:
    content = json.loads(encrypted(anvil_account(0), "password", 1))
    content["crypto"] |= change
    with pytest.raises(ValueError):
        opened(json.dumps(content), "password")
