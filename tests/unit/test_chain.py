"""Orders, commitments, amounts, keys and networks: everything of the chain that needs no chain."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_abi.grammar import parse
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.abi import abi_to_signature, collapse_if_tuple
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from hypothesis import given
from hypothesis import strategies as st
from web3 import Web3

from eigentensor.chain import (
    Decline,
    Deployment,
    Network,
    PublishedAsk,
    anvil_account,
    from_wei,
    load_account,
    save_account,
    to_wei,
)
from eigentensor.chain.contracts import NAMES, Function, abi, events_of, function_of
from eigentensor.chain.fixes import FIXES, MOVE
from eigentensor.chain.journal import Journal, Status
from eigentensor.chain.keys import ANVIL_ADDRESSES, ANVIL_KEYS, check_account, new_account
from eigentensor.chain.logs import SOURCES, decode_log, kinds_of
from eigentensor.chain.node import encode_header
from eigentensor.chain.refusals import reverted
from eigentensor.chain.words import WORDS
from eigentensor.channel import events as calls
from eigentensor.dispute.position import POSITION, Phase, Position
from eigentensor.economics.pricing import Ask, Pricing, Speed
from eigentensor.errors import ChainError, ConfigError, TaskError
from eigentensor.task import NONE, Domain, Order, commitment, order_signer, order_uuid, sign_order
from eigentensor.task.events import (
    KINDS,
    Accepted,
    Convicted,
    Demanded,
    Event,
    GameEnded,
    Leaf,
    Moved,
    Noted,
    Place,
    Posted,
    Shown,
    SignerSet,
    Slashed,
)
from eigentensor.task.state import Cause

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "order.json").read_text())
DOMAIN = Domain(VECTOR["domain"]["chainId"], VECTOR["domain"]["verifyingContract"])
SOLIDITY = {
    "min_price": "minPrice", "max_price": "maxPrice", "ramp_start": "rampStart", "ramp_length": "rampLength",
    "check_fee": "checkFee", "check_rate": "checkRate", "value_at_risk": "valueAtRisk", "accept_by": "acceptBy",
}  # fmt: skip


def vector_order() -> Order:
    values = {name: VECTOR["order"][SOLIDITY.get(name, name)] for name in Order.__slots__}
    return Order.from_json(values)


def bytes32(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def test_an_order_has_the_uuid_and_the_signature_of_the_vector() -> None:
    assert order_uuid(vector_order(), DOMAIN) == bytes32(VECTOR["task"])
    client = anvil_account(0)
    assert client.secret.hex() == VECTOR["clientKey"].removeprefix("0x")
    signature = sign_order(vector_order(), DOMAIN, client)
    assert signature == bytes32(VECTOR["signature"])
    assert order_signer(vector_order(), DOMAIN, signature) == client.address


def test_wallets_that_show_typed_data_sign_the_same_hash() -> None:
    kinds = [(name, kind) for name, kind in _struct("post")]
    message = {name: VECTOR["order"][name] for name, _ in kinds}
    message |= {name: int(value) for name, value in message.items() if str(value).isdigit()}
    typed = {
        "types": {
            "EIP712Domain": [
                {"name": "name", "type": "string"},
                {"name": "version", "type": "string"},
                {"name": "chainId", "type": "uint256"},
                {"name": "verifyingContract", "type": "address"},
            ],
            "Order": [{"name": name, "type": kind} for name, kind in kinds],
        },
        "primaryType": "Order",
        "domain": VECTOR["domain"],
        "message": message,
    }
    signed = Account.sign_message(encode_typed_data(full_message=typed), anvil_account(0).secret)
    assert bytes(signed.signature) == bytes32(VECTOR["signature"])


def _struct(function: str) -> list[tuple[str, str]]:
    entry: Any = next(e for e in abi("TaskMarket") if e.get("name") == function)
    return [(field["name"], field["type"]) for field in entry["inputs"][0]["components"]]


def test_every_field_of_an_order_changes_its_uuid() -> None:
    order = vector_order()
    seen = {order_uuid(order, DOMAIN)}
    for name in Order.__slots__:
        value = getattr(order, name)
        if name == "client":
            changed: Any = anvil_account(3).address
        else:
            changed = bytes(31) + b"\1" if isinstance(value, bytes) else value ^ 1
        seen.add(order_uuid(replace(order, **{name: changed}), DOMAIN))
    seen.add(order_uuid(order, Domain(1, DOMAIN.market)))
    seen.add(order_uuid(order, Domain(DOMAIN.chain_id, anvil_account(4).address)))
    assert len(seen) == len(Order.__slots__) + 3


def test_a_commitment_is_that_of_the_vector() -> None:
    c = VECTOR["commit"]
    made = commitment(
        DOMAIN, bytes32(VECTOR["task"]), c["operator"], c["slot"], bytes32(c["outputsRoot"]), bytes32(c["salt"])
    )
    assert made == bytes32(c["commitment"])


def test_an_order_survives_json() -> None:
    assert Order.from_json(json.loads(json.dumps(vector_order().to_json()))) == vector_order()


@pytest.mark.parametrize(
    "change",
    [
        {"client": "0x12"}, {"client": None}, {"nonce": -1}, {"nonce": "1e3"}, {"nonce": str(2**256)}, {"nonce": True},
        {"program": "0x00"}, {"program": 7}, {"semantics": 65536}, {"repeat": 1.5}, {"exec": None}, {"verifiers": 256},
        {"another": 1}, {"max_price": "9" * 5000}, {"max_price": "٣"},
    ],
)  # fmt: skip
def test_a_malformed_order_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(TaskError, match="malformed"):
        Order.from_json(vector_order().to_json() | change)


def test_a_signature_that_is_none_has_no_signer() -> None:
    for signature in (b"", b"\0" * 65, b"\xff" * 65, b"\1" * 64 + b"\x1b", b"\0" * 64 + b"\x1c"):
        assert order_signer(vector_order(), DOMAIN, signature) != anvil_account(0).address


def test_an_ask_is_signed_and_read() -> None:
    ask = Ask(Pricing(min_price=3), Speed(1e9, 1e8, 0.35), 12, 3)
    published = PublishedAsk(anvil_account(5).address, 77, ask)
    signed = json.loads(json.dumps(published.sign(DOMAIN, anvil_account(6))))
    assert PublishedAsk.read(signed, DOMAIN) == (published, anvil_account(6).address)
    dearer = signed | {"ask": replace(ask, reserve=4).to_json()}
    for change in (signed | {"block": 78}, dearer):
        assert PublishedAsk.read(change, DOMAIN)[1] != anvil_account(6).address
    wrongs: list[dict[str, Any]] = [{"block": -1}, {"block": "77"}, {"ask": {}}, {"operator": "0x"}, {"signature": ""}]
    for wrong in wrongs:
        with pytest.raises(TaskError, match="the ask is malformed"):
            PublishedAsk.read(signed | wrong, DOMAIN)


def test_a_decline_is_signed_and_read() -> None:
    decline = Decline(anvil_account(5).address, b"\7" * 32, "price", "2 wei", "1 wei")
    signed = json.loads(json.dumps(decline.sign(DOMAIN, anvil_account(6))))
    assert Decline.read(signed, DOMAIN) == (decline, anvil_account(6).address)
    assert Decline.read(signed | {"needed": "3 wei"}, DOMAIN)[1] != anvil_account(6).address
    for change in ({"reason": ""}, {"reason": "x" * 201}, {"needed": "a\nb"}, {"task": "0x00"}, {"signature": "0x"}):
        with pytest.raises(TaskError):
            Decline.read(signed | change, DOMAIN)
    with pytest.raises(TaskError):
        Decline.read({}, DOMAIN)


@given(st.integers(0, 10**40), st.integers(0, 24))
def test_amounts_are_exact_in_both_directions(amount: int, decimals: int) -> None:
    assert to_wei(from_wei(amount, decimals), decimals) == amount


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1e999999999", "0.0000000000000000001", "1.2.3"])
def test_what_is_not_an_amount_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        to_wei(text)


def test_amounts_read_as_people_write_them() -> None:
    assert to_wei("0.05") == 5 * 10**16 and to_wei("1_000") == 10**21 and to_wei("1e-18") == 1
    assert (from_wei(0), from_wei(10**18), from_wei(1500000000000000000)) == ("0", "1", "1.5")


def test_refusals_are_read_with_their_arguments() -> None:
    error = reverted(
        bytes.fromhex("08c379a0") + (32).to_bytes(32, "big") + (2).to_bytes(32, "big") + b"no".ljust(32, b"\0")
    )
    assert (error.name, error.arguments) == ("Error", ("no",))
    assert reverted(bytes.fromhex("4e487b71") + (17).to_bytes(32, "big")).arguments == (17,)
    assert reverted(b"").name == reverted(b"\1\2\3\4").name == "UnknownError"
    assert reverted(bytes.fromhex("08c379a0")).name == "UnknownError"


ERRORS: list[Any] = [entry for name in NAMES for entry in abi(name) if entry["type"] == "error"]
ZEROS = {"bytes": b"", "string": "", "uint32[]": (), "address": "0x" + "00" * 20, "bytes32": bytes(32)}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error["name"])
def test_every_refusal_has_words_and_says_what_to_do(error: Any) -> None:
    types = [entry["type"] for entry in error["inputs"]]
    refusal = reverted(keccak(text=abi_to_signature(error))[:4] + encode(types, [ZEROS.get(kind, 1) for kind in types]))
    words, name = str(refusal).rsplit(" ", 1)
    assert (refusal.name, name) == (error["name"], f"({error['name']})")
    assert " " in words and "{" not in words and words[0].islower() | (words[0] in "0E1"), words
    assert refusal.fix


@given(st.binary(max_size=200))
def test_a_refusal_that_nobody_knows_has_words_too(data: bytes) -> None:
    refusal = reverted(data)
    assert refusal.fix and " " in str(refusal) and len(str(refusal)) < 2_000


def test_what_a_task_is_and_should_be_is_said_by_name() -> None:
    data = keccak(text="WrongState(bytes32,uint8,uint8)")[:4] + encode(["bytes32", "uint8", "uint8"], [bytes(32), 1, 2])
    assert "the task is accepted, and this takes one that is open" in str(reverted(data))


def test_words_are_of_errors_that_there_are() -> None:
    assert set(WORDS) <= {error["name"] for error in ERRORS}


def test_every_event_of_the_contracts_is_known_with_its_fields() -> None:
    for kinds, names in ((KINDS, set(SOURCES) - {"Channels"}), (kinds_of("Channels"), {"Channels"})):
        events: list[Any] = [e for name in names for e in abi(name) if e["type"] == "event"]
        declared = {
            e["name"]: {field["name"] for field in e["inputs"]} for e in events if e["name"] != "EIP712DomainChanged"
        }
        assert len(declared) == len(events) - 1
        if "Moved" in declared:
            declared["Moved"].add("task")  # its position has it
        known = {name: {_camel(f.name) for f in fields(kind)} - {"place"} for name, kind in kinds.items()}
        assert known == declared
    assert all(kinds_of(name) is KINDS for name in set(SOURCES) - {"Channels"})


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


#: Errors of constructors, of calls between the contracts, and of the libraries that they are made with.
UNMET = re.compile(
    "Zero.*|NotConnected|StakeMarginBelowOne|RecordBeyondHistory|ChallengeShorterThanReveal|EtaAboveOne|WrongCheckFloor|"
    "WrongAVS|WrongBounty|WrongOperatorSets|AlreadyLocked|NotThe(Game|Market|AllocationManager|ServiceManager)|"
    "Safe.*|ReentrancyGuard.*|StringTooLong|InvalidShortString|FailedCall|AddressEmptyCode"
)


def test_every_refusal_that_an_account_can_meet_says_what_to_do() -> None:
    names = {contract: {e["name"] for e in abi(contract) if e["type"] == "error"} for contract in NAMES}
    assert set(FIXES) <= set().union(*names.values())
    met = names["TaskMarket"] | names["Channels"] | names["ServiceManager"] | names["Bounty"]
    assert {name for name in met - set(FIXES) if not UNMET.fullmatch(name)} == set()
    refused = reverted(keccak(b"Padding(uint256)")[:4] + bytes(32))
    assert refused.name == "Padding" and refused.fix == MOVE


PLACE = Place(1, 2, b"h" * 32, b"t" * 32)
TASK = b"k" * 32


def test_logs_are_decoded_with_what_is_inside_them() -> None:
    address = anvil_account(1).address
    position = Position(TASK, address, address, Phase.NODE, 7, 8, 9, node=b"n" * 32, rooted=True, high=2**64 - 1)
    types, values = [POSITION, "bytes"], [position.pack(), b"published"]
    signature = keccak(f"Moved(uint256,{POSITION},bytes)".encode())
    log: Any = {
        "address": address, "topics": [HexBytes(signature), HexBytes((3).to_bytes(32, "big"))],
        "data": HexBytes(encode(types, values)), "blockNumber": 1, "blockHash": HexBytes(PLACE.block_hash),
        "logIndex": 2, "transactionHash": HexBytes(PLACE.transaction), "transactionIndex": 0, "removed": False,
    }  # fmt: skip
    moved = decode_log(log)
    assert moved == Moved(PLACE, TASK, 3, position, b"published")
    assert isinstance(moved, Moved) and moved.position.phase is Phase.NODE and type(moved.data) is bytes
    assert Moved.from_arguments(PLACE, json.loads(json.dumps(moved.arguments()))) == moved
    assert decode_log(log | {"topics": [HexBytes(b"?" * 32)]}) is None
    assert decode_log(log | {"topics": []}) is None


def test_a_log_is_a_tasks_or_a_batchs_by_its_contract() -> None:
    market, channels, winner = (anvil_account(index).address for index in range(3))
    signature = HexBytes(keccak(b"Slashed(bytes32,uint256,uint256,address)"))
    log: Any = {
        "address": market, "topics": [signature, HexBytes(TASK), HexBytes(bytes(12) + bytes.fromhex(winner[2:]))],
        "data": HexBytes(encode(["uint256", "uint256"], [7, 8])), "blockNumber": 1, "logIndex": 2,
        "blockHash": HexBytes(PLACE.block_hash), "transactionHash": HexBytes(PLACE.transaction), "transactionIndex": 0,
    }  # fmt: skip
    assert decode_log(log, channels) == Slashed(PLACE, TASK, 7, 8, winner)
    assert decode_log(log | {"address": channels}, channels) == calls.Slashed(PLACE, TASK, 7, 8, winner)


@pytest.mark.parametrize(
    "event",
    [
        Posted(PLACE, TASK, anvil_account(0).address, vector_order()),
        Accepted(PLACE, TASK, anvil_account(1).address, 2**200, 0),
        Convicted(PLACE, TASK, Cause.SILENCE, anvil_account(1).address, 2**200),
        GameEnded(PLACE, TASK, 3, anvil_account(1).address, True),
        Demanded(PLACE, TASK, (Leaf(False, 1, 2**60), Leaf(True, 0, 0)), 7),
        Shown(PLACE, TASK, 1, b"\1\2"),
        Noted(PLACE, TASK, 1, 2**100, (anvil_account(1).address, anvil_account(2).address)),
        SignerSet(PLACE, anvil_account(1).address, anvil_account(2).address, 2**95, 2**96 - 1),
    ],
)
def test_events_survive_json(event: Event) -> None:
    assert type(event).from_arguments(event.place, json.loads(json.dumps(event.arguments()))) == event


EMPTY_LIST, EMPTY_TREE = (
    bytes.fromhex("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"),
    bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"),
)
#: The first block of Ethereum's main chain, as nodes describe it.
GENESIS: dict[str, Any] = {
    "hash": bytes.fromhex("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"),
    "parentHash": bytes(32), "sha3Uncles": EMPTY_LIST, "miner": "0x" + "00" * 20,
    "stateRoot": bytes.fromhex("d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544"),
    "transactionsRoot": EMPTY_TREE, "receiptsRoot": EMPTY_TREE, "logsBloom": bytes(256), "difficulty": 17_179_869_184,
    "number": 0, "gasLimit": 5_000, "gasUsed": 0, "timestamp": 0,
    "extraData": bytes.fromhex("11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa"),
    "mixHash": bytes(32), "nonce": bytes(7) + b"\x42", "size": 540,
}  # fmt: skip


def test_a_header_is_what_the_chain_hashes() -> None:
    assert len(encode_header(GENESIS)) == GENESIS["size"] - 5  # the block is a list of the header and two empty ones
    for change in ({"mixHash": b"\1" * 32}, {"timestamp": 1}, {"baseFeePerGas": 7}):
        with pytest.raises(ChainError, match="does not hash"):
            encode_header(GENESIS | change)


def test_a_key_is_kept_where_only_its_owner_reads_it(tmp_path: Path) -> None:
    keystore, password = tmp_path / "keys" / "k.json", tmp_path / "password"
    account = new_account()
    save_account(account, keystore, "secret", iterations=1)
    password.write_text("secret\n")
    assert load_account(keystore, password).address == account.address
    assert keystore.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="exists"):
        save_account(account, keystore, "secret", iterations=1)


def test_a_key_that_cannot_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keystore, password = tmp_path / "k.json", tmp_path / "password"
    monkeypatch.delenv("EIGENTENSOR_KEYSTORE", raising=False)
    with pytest.raises(ConfigError, match="EIGENTENSOR_KEYSTORE"):
        load_account()
    password.write_text("wrong")
    with pytest.raises(ConfigError, match="cannot read"):
        load_account(keystore, password)
    save_account(new_account(), keystore, "right", iterations=1)
    with pytest.raises(ConfigError, match="cannot be opened"):
        load_account(keystore, password)
    keystore.write_text("{}")
    with pytest.raises(ConfigError, match="cannot be opened"):
        load_account(keystore, password)


def deployment(chain_id: int = 31337) -> dict[str, Any]:
    address = anvil_account(9).address
    names = (
        "maxExec,lag,grid,record,check,reveal,challenge,clock,margin,eta,gDef,gMiss,checkFloor,phi,sybils,stakeMargin,"
        "minStake,gChk,gChunk,otherSeats,confirmations"
    )
    contracts = ["taskMarket", "serviceManager", "disputeGame", "channels", "channelsGame", "referee", "bounty", "burn"]
    return {
        "chainId": chain_id, "block": 3, **dict.fromkeys(contracts, address),
        "core": dict.fromkeys(["allocationManager", "delegationManager", "strategyManager", "strategy"], address),
        "token": {"address": address, "symbol": "T", "decimals": 18},
        "parameters": dict.fromkeys(names.split(","), 1),
    }  # fmt: skip


def test_a_network_is_found_by_name_by_path_and_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("EIGENTENSOR_NETWORK", raising=False)
    with pytest.raises(ConfigError, match="there is no network"):
        Network.load()
    network = Network("local", "http://127.0.0.1:1", "http://127.0.0.1:2", Deployment.from_json(deployment()))
    path = network.save()
    assert path == tmp_path / "eigentensor" / "networks" / "local.json"
    assert Network.load() == Network.load("local") == Network.load(path) == network
    other = replace(network, name="other")
    other.save()
    monkeypatch.setenv("EIGENTENSOR_NETWORK", "other")
    assert Network.load() == other and Network.load("local") == network


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rpc_url": 1, "gateway_url": 2, "deployment": {}}'])
def test_a_file_that_is_no_network_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.json").write_text(text)
    with pytest.raises(ConfigError):
        Network.load(tmp_path / "n.json")


def test_the_addresses_of_keys_that_everybody_knows_are_theirs() -> None:
    assert [anvil_account(index).address for index in range(len(ANVIL_KEYS))] == list(ANVIL_ADDRESSES)


def test_keys_that_everybody_knows_are_refused_on_every_other_chain() -> None:
    def network(chain_id: int) -> Network:
        return Network("n", "http://127.0.0.1:1", "http://127.0.0.1:2", Deployment.from_json(deployment(chain_id)))

    check_account(anvil_account(0), network(31337))
    check_account(new_account(), network(1))
    for index in (0, 9):
        with pytest.raises(ConfigError, match="everybody knows"):
            check_account(anvil_account(index), network(1))


def test_a_journal_remembers_after_a_restart_and_takes_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j" / "journal.sqlite"
    journal = Journal(path)
    journal.begin("k", "post", 7)
    journal.attempt("k", b"hash", b"raw", 10, 1)
    with pytest.raises(RuntimeError), journal.exclusive():
        journal.begin("other", "post", 8)
        raise RuntimeError
    journal.close()
    again = Journal(path)
    assert [intent.key for intent in again.pending()] == ["k"] and [again.free_nonce(n) for n in (6, 7, 8)] == [6, 8, 8]
    intent = again.get("k")
    assert intent is not None and intent.attempts[0].raw == b"raw" and again.get("other") is None
    again.mark("k", Status.MINED)
    assert again.pending() == [] and again.free_nonce(7) == 7
    again.close()


def test_roots_stand_for_none_where_they_are_zero() -> None:
    assert bytes(32) == NONE


def test_the_committed_abis_and_the_recorded_deployment_are_those_of_the_contracts() -> None:
    script = Path(__file__).parents[2] / "scripts" / "abi"
    done = subprocess.run([script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_called_as_web3_calls_them(name: str) -> None:
    contract, numbers = Web3().eth.contract(abi=abi(name)), cycle(range(1, 128))
    for entry in contract.abi:
        if entry["type"] != "function":
            continue
        signature = abi_to_signature(entry)
        function = function_of(contract.abi, signature)
        values = [_value(kind, numbers) for kind in function.inputs]
        assert function.data(values) == bytes.fromhex(contract.encode_abi(signature, values)[2:])


@pytest.mark.parametrize("name", NAMES)
def test_events_are_read_as_web3_reads_them(name: str) -> None:
    contract, numbers = Web3().eth.contract(abi=abi(name)), cycle(range(1, 128))
    for event, logged in events_of(abi(name)).items():
        indexed = [one for one in logged.entry["inputs"] if one["indexed"]]
        others = [collapse_if_tuple(one) for one in logged.entry["inputs"] if not one["indexed"]]
        topics = [logged.topic, *(encode([one["type"]], [_value(one["type"], numbers)]) for one in indexed)]
        data = encode(others, [_value(kind, numbers) for kind in others])
        log: Any = {
            "address": "0x" + "00" * 20, "topics": list(map(HexBytes, topics)), "data": HexBytes(data), "logIndex": 0,
            "blockNumber": 1, "blockHash": bytes(32), "transactionHash": bytes(32), "transactionIndex": 0,
        }  # fmt: skip
        theirs = contract.events[event]().process_log(log)["args"]
        assert _plain(logged.values(topics, data)) == _plain(theirs), event
        with pytest.raises(ValueError):
            logged.values([*topics, bytes(32)], data)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_a_function_takes_no_bytes_that_are_too_few() -> None:
    for root in (b"", bytes(31), bytes(33), "0x" + "00" * 32):
        with pytest.raises(ValueError):
            Function(b"", ("bytes32",), ()).data((root,))
    assert Function(b"", ("bytes32",), ()).data((bytes(32),)) == bytes(32)


def test_a_function_returns_addresses_with_checksums_however_deep() -> None:
    address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    answer = encode(["(address,uint256)[]"], [[(address, 7)]])
    assert Function(b"", (), ("(address,uint256)[]",)).values(answer) == ((address, 7),)
    with pytest.raises(ChainError, match="3 bytes are no"):
        Function(b"", (), ("uint256",)).values(b"abc")


def _value(kind: str, numbers: Iterator[int]) -> Any:
    """A value of an ABI type, unlike those of other numbers."""
    if kind.endswith("]"):
        item, _, length = kind[:-1].rpartition("[")
        return [_value(item, numbers) for _ in range(int(length or 2))]
    if kind.startswith("("):
        return tuple(_value(part, numbers) for part in _parts(kind[1:-1]))
    number = next(numbers)
    if kind.startswith("bytes"):
        return number.to_bytes(int(kind[5:] or 2), "big")
    words = {"address": to_checksum_address(number.to_bytes(20, "big")), "bool": number % 2 == 1, "string": str(number)}
    return words.get(kind, number)


def _parts(kinds: str) -> list[str]:
    return [component.to_type_str() for component in parse(f"({kinds})").components]
