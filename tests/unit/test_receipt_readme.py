"""A receipt verified by nothing but what the guide to receipts says: no line of EigenTensor's code is used here."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rlp
from eth_abi.abi import decode, encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.abi import abi_to_signature
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

ROOT = Path(__file__).parents[2]
TEXTS = json.loads((ROOT / "tests" / "vectors" / "receipts.json").read_text())
ABI = json.loads((ROOT / "sdk" / "eigentensor" / "chain" / "abi" / "TaskMarket.json").read_text())
FUNCTIONS = {keccak(text=abi_to_signature(entry))[:4]: entry for entry in ABI if entry["type"] == "function"}
ORDER = next(f for f in ABI if f.get("name") == "post")["inputs"][0]["components"]
TYPED = {"Order": [{"name": field["name"], "type": field["type"]} for field in ORDER]}
WORDS = ["uint256", "address", "bytes32", "address", "uint256", "bytes32", "bytes32"]
SIGNED = {"Posted", "Accepted", "Committed", "Answered", "Challenged", "Demanded"}


def unhex(text: str) -> bytes:
    return bytes.fromhex(text[2:])


class Verified:
    """Everything of a receipt that follows from signatures and hashes; an assertion fails where it does not."""

    def __init__(self, text: str) -> None:
        self.value = json.loads(text)
        self.signed = self.hashed = 0
        rest = {name: v for name, v in self.value.items() if name != "digest"}
        canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        assert self.value["digest"] == hashlib.sha256(canonical.encode()).hexdigest()
        self.order = [_plain(f["type"], self.value["order"][_snake(f["name"])]) for f in ORDER]
        self.client = self.value["order"]["client"]
        market = self.value["market"]
        self.chain, self.market = market["chain_id"], market["address"]
        self.typed = encode_typed_data(
            {"name": "EigenTensor", "version": "1", "chainId": self.chain, "verifyingContract": self.market},
            TYPED,
            dict(zip([f["name"] for f in ORDER], self.order, strict=True)),
        )
        self.task = keccak(b"\x19\x01" + self.typed.header + self.typed.body)
        assert self.value["task"] == self.task.hex()
        self.calls = {entry["hash"]: self.call(entry) for entry in self.value["transactions"]}
        self.hidden = {0: (self.value["executor"]["operator"], self.value["executor"]["commitment"])}
        for event in self.value["events"]:
            if event["event"] == "Answered":
                data = event["data"]
                self.hidden[int(data["index"]) + 1] = data["operator"], data["commitment"]
        for event in self.value["events"]:
            self.event(event)
        self.result()

    def call(self, entry: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        """Who signed a transaction, and which message it is, with its arguments."""
        raw = unhex(entry["raw"])
        assert unhex(entry["hash"]) == keccak(raw)
        assert entry["from"] == Account.recover_transaction(raw)
        assert raw[0] == 2, "the vectors have transactions of type 2 alone"
        fields = rlp.decode(raw[1:])
        assert (int.from_bytes(fields[0], "big"), to_checksum_address(fields[5])) == (self.chain, self.market)
        assert entry["to"] == self.market
        function = FUNCTIONS[fields[7][:4]]
        values = decode([_type(i) for i in function["inputs"]], fields[7][4:])
        names = [i["name"] for i in function["inputs"]]
        return entry["from"], function["name"], dict(zip(names, values, strict=True))

    def event(self, event: dict[str, Any]) -> None:
        kind, data, proof = event["event"], event["data"], event["proof"]
        if kind in SIGNED and proof is None and event["transaction"] in self.calls:
            self.signature(kind, data, *self.calls[event["transaction"]])
            self.signed += 1
        elif kind == "Posted" and proof is not None:
            assert Account.recover_message(self.typed, signature=unhex(proof["signature"])) == self.client
            self.signed += 1
        elif kind in ("Revealed", "Exposed") and proof is not None:
            root = data["outputs_root"] if kind == "Revealed" else proof["outputs_root"]
            slot = int(data["slot"])
            operator, commitment = self.hidden[slot]
            opening = [self.chain, self.market, self.task, operator, slot, unhex(root), unhex(proof["salt"])]
            assert unhex(commitment) == keccak(encode(WORDS, opening))
            self.hashed += 1
        elif kind == "Seeded" and proof is not None:
            header = rlp.decode(unhex(proof["header"]))
            assert int.from_bytes(header[8], "big") == int(data["seed_block"])
            assert header[13] == unhex(data["mix"])
            self.draw(unhex(data["mix"]))
            self.hashed += 1

    def signature(self, kind: str, data: dict[str, Any], sender: str, name: str, arguments: dict[str, Any]) -> None:
        orders = arguments.get("orders", [arguments.get("order")])
        tasks = zip(
            arguments.get("tasks", [arguments.get("task")]),
            arguments.get("commitments", [arguments.get("commitment")]),
            strict=True,
        )
        mine = (self.client.lower(), *self.order[1:])
        match kind:
            case "Posted":
                assert name in ("post", "postMany") and mine in orders and sender == self.client
            case "Accepted":
                assert name in ("accept", "acceptMany") and mine in orders and arguments["operator"] == sender.lower()
            case "Committed":
                commitment = unhex(self.value["executor"]["commitment"])
                assert name in ("commit", "commitMany") and (self.task, commitment) in list(tasks)
                assert sender == self.value["executor"]["signer"] and arguments["operator"] == sender.lower()
            case "Answered":
                assert name == "answer" and arguments["order"] == mine and arguments["index"] == int(data["index"])
                assert arguments["commitment"] == unhex(data["commitment"]) and arguments["operator"] == sender.lower()
            case "Challenged":
                assert name == "challenge" and arguments["order"] == mine and arguments["challenger"] == sender.lower()
            case "Demanded":
                leaves = [(leaf["state"], int(leaf["tensor"]), int(leaf["index"])) for leaf in data["leaves"]]
                assert name == "demand" and arguments["order"] == mine and list(arguments["leaves"]) == leaves

    def draw(self, mix: bytes) -> None:
        checks = self.value["checks"]
        chance = int.from_bytes(keccak(encode(["bytes32", "bytes32", "string"], [mix, self.task, "draw"])), "big")
        assert checks["drawn"] == (chance % 10**18 < self.value["order"]["check_rate"])
        for answer in checks["answers"]:
            word = keccak(encode(["bytes32", "bytes32", "uint256"], [mix, self.task, answer["index"]]))
            assert answer["seat"] == int.from_bytes(word, "big") % checks["seats"]

    def result(self) -> None:
        result = self.value["result"]
        if result["outputs"] is not None:
            parts = unhex(result["outputs"]) + unhex(result["states"])
            assert unhex(result["outputs_root"]) == hashlib.sha256(b"\x06" + parts).digest()


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def _plain(kind: str, value: Any) -> Any:
    return unhex(value) if kind == "bytes32" else value if kind == "address" else int(value)


def _type(entry: dict[str, Any]) -> str:
    if not entry["type"].startswith("tuple"):
        return str(entry["type"])
    return f"({','.join(map(_type, entry['components']))}){entry['type'].removeprefix('tuple')}"


@pytest.mark.parametrize("name", TEXTS)
def test_a_receipt_is_verified_by_what_the_readme_says(name: str) -> None:
    verified = Verified(TEXTS[name])
    kinds = [event["event"] for event in verified.value["events"]]
    # In these, all who could sign did so themselves, but for a challenge that a differing answer opens.
    opened = name in ("contradicted", "convicted")
    assert verified.signed == sum(kind in SIGNED for kind in kinds) - opened
    assert verified.hashed == sum(kind in ("Revealed", "Exposed", "Seeded") for kind in kinds)


def test_it_is_not_verified_where_a_root_a_salt_or_a_signature_is_another() -> None:
    for name, change in (("confirmed", "outputs_root"), ("confirmed", "salt"), ("unanswered", "signature")):
        value = json.loads(TEXTS[name])
        event = next(e for e in value["events"] if change in {**e["data"], **(e["proof"] or {})})
        held = event["data"] if change in event["data"] else event["proof"]
        held[change] = held[change][:10] + ("1" if held[change][10] == "0" else "0") + held[change][11:]
        rest = {key: v for key, v in value.items() if key != "digest"}
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        value["digest"] = hashlib.sha256(text.encode()).hexdigest()
        with pytest.raises(AssertionError):
            Verified(json.dumps(value))
