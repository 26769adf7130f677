"""`eigentensor channel` from its opening to the last wei, and `receipt check` of a call, against a toy operator."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.capture import GraphProgram
from eigentensor.chain import Chain, Network, to_wei
from eigentensor.program import encode
from eigentensor.store import LocalStore
from eigentensor_client.channels.channel import Channel, Policy
from eigentensor_client.channels.ledger import Ledger
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from support.stories.calls_place import Place
from support.stories.paid_calls import doubling, inputs, program_root

Run = Callable[..., Any]


@pytest.fixture
def run(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command with `--json`: the last object that it prints, and its exit code."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGENTENSOR_NETWORK", str(network.save(tmp_path / "network.json")))

    def command(*words: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        code = ended.value.code
        return (code if isinstance(code, int) else 0), lines[-1] if lines else None

    return command


@pytest.fixture
def place(operator: Chain, client: Chain, network: Network, run: Run, tmp_path: Path) -> Iterator[Place]:
    """The commands pay as account 1: it gets tokens."""
    with Client(network) as paying:
        client.token.mint(paying.address, to_wei("1"))
        made = Place(operator, paying, tmp_path / "unused")
        yield made
        made.ledger.close()


def test_a_channel_by_verbs_alone(place: Place, client: Chain, network: Network, run: Run, tmp_path: Path) -> None:
    program: GraphProgram = doubling()
    with place.toy.listening() as url:
        words = ("--deposit", "0.01", "--program", program.uuid)
        code, opened = run("channel", "open", url, *words, "--max-price", "0.000001")
        assert (code, opened["error"]) == (11, "TermsRefused")
        code, opened = run("channel", "open", url, *words)
        assert (code, opened["schema"], opened["stage"]) == (0, "eigentensor.channel-account/1", "open")
        name = opened["channel"][:8]
        assert run("channel", "list")[1]["channels"] == [{n: v for n, v in opened.items() if n != "schema"}]
        assert int(run("channel", "fund", name, "0.01")[1]["deposit"]) == to_wei("0.02")

        with Ledger() as ledger, Channel.take_up(place.client, name, ledger=ledger, policy=Policy(looks=0)) as channel:
            for value in range(3):
                channel.call(program.program, program_root(), {"x": np.full(4, value, np.float32)})
            code, busy = run("channel", "leave", name)
            assert (code, busy["error"]) == (15, "ChannelBusy")
        receipt = str(tmp_path / "call.receipt")
        assert run("channel", "receipt", name, "1", "-o", receipt)[1]["state"] == "signed"
        place.commit()
        shown = run("channel", "show", name)[1]
        assert [line["count"] for line in shown["lines"]] == [3] and shown["calls"] == 3
        assert run("channel", "receipt", name, "1", "-o", receipt)[1]["state"] == "committed"
        assert run("channel", "receipt", name, "7", "-o", receipt)[1]["error"] == "TaskNotFound"

        code, checked = run("receipt", "check", receipt)
        assert (code, checked["schema"], checked["now"]) == (0, "eigentensor.call-receipt-check/1", None)
        code, checked = run("receipt", "check", receipt, "--chain")
        assert (code, checked["now"]["state"], checked["now"]["is_committed"]) == (0, "committed", True)
        store = LocalStore()
        store.put(inputs(1))
        store.put(encode(program.program))
        code, checked = run("receipt", "check", receipt, "--deep", "--unsafe-no-sandbox")
        assert (code, checked["executed"]["agrees"]) == (0, True)
        wrong = json.loads(Path(receipt).read_text())
        wrong["receipt"]["outputs_root"] = "0x" + "00" * 32
        Path(receipt).write_text(json.dumps(wrong))
        assert run("receipt", "check", receipt)[0] == 8

        assert run("channel", "watch", "--once") == (0, None)
        code, closed = run("channel", "close", name, "--wait")
        assert (code, closed["stage"], closed["deposit"]) == (0, "ended", "0")
        assert not place.toy.concluded

        place.chain.channels.deposit(place.chain.address, to_wei("0.5"))  # which the same account got back
        place.begin()
        name = run("channel", "open", url, *words)[1]["channel"]
        code, closed = run("channel", "close", name)
        assert (code, closed["stage"], closed["deposit"]) == (0, "ended", "0")
        assert place.toy.concluded == {bytes.fromhex(name)}
        place.toy.concludes = False
        name = run("channel", "open", url, *words)[1]["channel"]
        code, waits = run("channel", "close", name, "--timeout", "2")
        assert (code, waits["error"]) == (9, "NotYet") and "last batch, 2" in waits["what"]


def test_a_liar_is_convicted_by_the_watch(place: Place, run: Run) -> None:
    with place.toy.listening() as url:
        name = run("channel", "open", url, "--deposit", "0.01")[1]["channel"]
        with Ledger() as ledger, Channel.take_up(place.client, name, ledger=ledger, policy=Policy(looks=0)) as channel:
            channel.call(doubling().program, program_root(), {"x": np.ones(4, np.float32)})
        place.commit(lambda sheet: replace(sheet, tail=tuple(replace(one, result=b"\xee" * 32) for one in sheet.tail)))
        code, seen = run("channel", "watch", "--once")
        assert (code, seen["what"]) == (0, "call 0 was committed with another result: convicted")
