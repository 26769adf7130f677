"""The command line as people and scripts use it: processes, exit codes, streams."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eth_account import Account

from eigentensor import merkle, reference
from eigentensor.capture import GraphProgram
from eigentensor.chain import anvil_account, save_account
from eigentensor.store import load_safetensors, save_safetensors
from eigentensor.task import State
from eigentensor_client.accounts import CLIENT
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_local.devnet import COLLATERAL, Devnet, Party
from support.screens.readme import ROOT, commands
from support.vectors import receipts as receipt_vectors

Call = Callable[..., tuple[int, str, str]]
RUN = ["run", "x.program", "-i", "a=@a.npy", "-i", "b=@b.npy", "-w", "w.safetensors", "--max-price", "0.05"]


@pytest.fixture
def folder(tmp_path: Path, graph: GraphProgram, work: Work, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user has a program, its weights and inputs."""
    (tmp_path / "x.program").write_bytes(graph.to_bytes())
    save_safetensors(tmp_path / "w.safetensors", dict(graph.weights))
    for name, array in work.inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "eigentensor_client", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """A command, in this process: its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        code = ended.value.code
        return (code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


@pytest.fixture
def call_json(call: Call) -> Callable[..., Any]:
    """A command that succeeds: its object."""

    def run(*words: str) -> Any:
        code, out, err = call(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


def lines_until(process: "subprocess.Popen[str]", pattern: str) -> "re.Match[str]":
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"never said {pattern!r}: {''.join(lines)}")


@contextmanager
def dear_gas(net: Devnet) -> Iterator[None]:
    """Nobody accepts: gas costs more than any price. It would fall by an eighth with every empty block; afterwards it
    does."""
    ended = threading.Event()

    def raise_it() -> None:
        while not ended.wait(0.2):
            net.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**14))

    thread = threading.Thread(target=raise_it)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def open_task(client: Client, work: Work) -> Iterator[str]:
    """A task that nobody can accept."""
    nobody = merkle.operators_root([bytes(19) + b"\x01"])
    (task,) = client.post([work], Terms(10**15, operators=nobody, accept_within=10_000))
    yield task.uuid


def test_run_writes_the_result_and_one_object(
    call_json: Callable[..., Any], net: Devnet, operators: list[Party], folder: Path, work: Work
) -> None:
    with start(*RUN, "-o", "out.safetensors", "--receipt", "task.receipt", "--json") as process:
        assert lines_until(process, "").string.startswith("eigentensor 0.1.0 · network local · account 0x")
        window = lines_until(process, r"the end of the window: final after block (\d+)")
        net.anvil.mine_past(int(window[1]))
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    result = json.loads(out)
    assert result["schema"] == "eigentensor.result/1"
    drawn = result["task"]["draw"]["drawn"]
    assert (result["task"]["state"], result["task"]["checked"]) == ("final", "checked(1)" if drawn else "unchecked")
    assert isinstance(work.weights, dict)
    expected = reference.execute(work.program, {**work.inputs, **work.weights}).outputs
    written = load_safetensors(folder / "out.safetensors")
    assert {name: array.tobytes() for name, array in written.items()} == {n: a.tobytes() for n, a in expected.items()}

    task = result["task"]["task"]
    shown = call_json("task", "show", task)
    assert (shown["schema"], shown["task"], shown["state"]) == ("eigentensor.task/1", task, "final")
    listed = call_json("ps")
    assert (listed["schema"], listed["tasks"][0]["task"]) == ("eigentensor.tasks/1", task)
    again = call_json("get", task[:12], "-o", "again.safetensors")
    assert again["outputs_root"] == result["outputs_root"]

    command = [sys.executable, "-m", "support.foreign", *RUN, "-o", "foreign.safetensors", "--wait", "result", "--json"]
    places = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "client" / "examples")])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr  # a client that is not on Linux, once more the same
    assert (folder / "foreign.safetensors").read_bytes() == (folder / "out.safetensors").read_bytes()
    assert (folder / "again.safetensors").read_bytes() == (folder / "out.safetensors").read_bytes()
    assert again["files"] == {"outputs": "again.safetensors", "states": None, "receipt": None}
    kept = call_json("get", task[:12])
    assert kept["files"]["outputs"] == f"{task[:10]}.safetensors"
    assert (folder / kept["files"]["outputs"]).read_bytes() == (folder / "out.safetensors").read_bytes()
    assert kept["outputs"]["output"]["first"] == written["output"].reshape(-1)[:6].tolist()
    checked = call_json("receipt", "check", "task.receipt", "--outputs", "out.safetensors", "--chain")
    assert (checked["schema"], checked["task"]) == ("eigentensor.receipt-check/1", task)
    assert checked["state"] == checked["now"]["state"] == f"{result['task']['stage']}, {result['task']['checked']}"


#: What signs and what computes.
UNREAD = {"web3", "eth_account", "py_ecc", "cffi", "tinygrad", "eigentensor_client.client"}
READS = [
    "ps", "task show TASK", "task explain TASK", "logs TASK", "wallet show", "network list", "network show",
    "plan x.program -i a=@a.npy -i b=@b.npy -w w.safetensors --max-price 0.05",
]  # fmt: skip


@pytest.mark.parametrize("command", READS)
def test_who_only_reads_opens_no_key_and_loads_neither_what_signs_nor_what_computes(
    net: Devnet, folder: Path, open_task: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_account(anvil_account(CLIENT), folder / "key.json", "its password is not known here", iterations=1)
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", "key.json")
    code = (
        "import sys; from eigentensor_client.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    words = command.replace("TASK", open_task).split()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout, done.stderr
    assert not UNREAD & set(done.stderr.split())


def test_a_keystore_that_is_anothers_shows_whose_it_says_and_pays_nothing(
    call: Call, call_json: Callable[..., Any], net: Devnet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, password = folder / "key.json", folder / "password"
    save_account(anvil_account(CLIENT), key, "local", iterations=1)
    password.write_text("local")
    nobody = "0x" + "00" * 19 + "01"
    key.write_text(json.dumps(json.loads(key.read_text()) | {"address": nobody}))
    monkeypatch.setenv("EIGENTENSOR_KEYSTORE", str(key))
    monkeypatch.setenv("EIGENTENSOR_PASSWORD_FILE", str(password))
    assert call_json("wallet", "show")["address"] == nobody
    code, _, err = call("wallet", "deposit", "1")
    assert code == 3 and f"says that it has the key of {nobody}" in err


@pytest.mark.slow
def test_a_receipt_is_written_at_any_time_and_its_result_executed_again(
    call: Call, call_json: Callable[..., Any], net: Devnet, operators: list[Party], folder: Path
) -> None:
    words = ["--wait", "result", "-o", "out.safetensors", "--receipt", "task.receipt"]
    task = call_json(*RUN, *words)["task"]["task"]
    deep = call_json("receipt", "check", "task.receipt", "--deep")
    assert deep["executed"] == {"agrees": True, "outputs_root": deep["outputs_root"]}
    assert deep["now"] is None and "the result is right" in " ".join(deep["proves"])
    again = call_json("get", task[:12], "-o", "again.safetensors", "--receipt", "again.receipt")
    got = call_json("receipt", "get", task[:12], "-o", "got.receipt")
    assert got["task"] == again["task"]["task"] == task
    assert call("receipt", "check", "got.receipt", "--outputs", "w.safetensors")[0] == 8
    assert call("receipt", "get", task[:12], "-o", "nowhere/got.receipt")[0] == 3
    (folder / "other.receipt").write_bytes(receipt_vectors.load()["confirmed"].to_bytes())
    code, out, err = call("receipt", "check", "other.receipt", "--deep")
    assert code == 4 and "is not at the network's gateway" in err and "who signed what" in out
    assert call("receipt", "check", "other.receipt", "--chain")[0] == 8


@pytest.mark.slow
def test_operators_are_said_to_have_earned_what_their_accounts_gained(
    call_json: Callable[..., Any], net: Devnet, operators: list[Party], client: Client, work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By whatever was done before, too: executed, checked, played, won and lost."""
    (task,) = client.post([work], Terms(10**16, check_rate=10**18))
    final = client.wait(task, "final", timeout=240)
    assert final.executor
    for _ in range(100):
        weeks, agree = [], True
        for party in operators:
            monkeypatch.setenv("EIGENTENSOR_OPERATOR_DATA_DIR", str(party.folder))
            status = call_json("operator", "status")
            weeks.append(week := status["week"])
            net_wei = sum(int(week[name]) for name in ("tasks", "checks", "bonds")) - int(week["penalties"])
            agree &= net_wei == int(status["balance"]) + int(status["collateral"]) - COLLATERAL
        if agree and any(week["executed"] for week in weeks) and any(week["checked"] for week in weeks):
            return
        time.sleep(0.2)  # a check is paid after the end of its task, and they have not read the last block yet
    raise AssertionError(weeks)


def test_a_run_that_was_interrupted_is_taken_up_again(
    call: Call, net: Devnet, operators: list[Party], client: Client, folder: Path
) -> None:
    with start(*RUN) as process:
        posted = lines_until(process, r"posted\s+(\w{64})")[1]
        lines_until(process, "waits for")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"eigentensor get {posted[:10]}" in err
    assert "Traceback" not in err
    assert call("get", posted[:10], "-o", "out.safetensors")[0] == 0
    deadline = client.task(posted).deadline
    assert deadline is not None
    net.anvil.mine_past(deadline)
    assert client.wait(client.task(posted), timeout=60).state is State.FINAL


def test_plan_shows_price_and_cap_and_sends_nothing(
    call_json: Callable[..., Any], client: Client, folder: Path
) -> None:
    sent = client.chain.node.transaction_count(client.address)
    plan = call_json("plan", *RUN[1:])
    assert plan["schema"] == "eigentensor.plan/1"
    assert plan["max_price"] == str(5 * 10**16)
    assert int(plan["escrow"]) == int(plan["max_price"]) + int(plan["check_fee"])
    assert int(plan["check_rate"]) == 10**18 // 5
    assert int(plan["stake"]) > int(plan["max_price"])
    assert plan["affordable"] and plan["evaluations"] > 0
    assert client.chain.node.transaction_count(client.address) == sent


def test_explain_says_what_each_operator_says(
    call_json: Callable[..., Any], operators: list[Party], open_task: str
) -> None:
    explanation = call_json("task", "explain", open_task)
    assert explanation["schema"] == "eigentensor.explanation/1"
    assert {party.address for party in operators} <= {o["operator"] for o in explanation["operators"]}
    assert explanation["helps"]


def test_who_asks_for_too_little_learns_why_while_waiting_and_afterwards(
    call_json: Callable[..., Any], net: Devnet, operators: list[Party], client: Client, folder: Path
) -> None:
    with start(*RUN[:-1], "0.00001", "--ramp", "0") as process:
        posted = lines_until(process, r"posted\s+(\w{64})")[1]
        why = lines_until(process, r"an acceptance until block (\d+)[^;]*; operators: price \(3 operators\): (.*)")
        assert re.fullmatch(r"would accept at a price of 0\.\d+ TETH: a higher --max-price \([^;]*\)", why[2])
        net.anvil.mine_past(int(why[1]))
        _, err = process.communicate(timeout=60)
    assert process.returncode == 6
    assert f"no operator accepted task {posted}" in err and "operators said price (3 operators)" in err
    assert f"fix  What would help: {why[2]}." in err
    explanation = call_json("task", "explain", posted[:10])
    assert explanation["state"] == "expired" and explanation["helps"] == [why[2]]
    assert {o["reason"] for o in explanation["operators"]} == {"price"}
    needed = sorted(int(o["needed"].removesuffix(" wei")) for o in explanation["operators"])
    plan = call_json("plan", *RUN[1:])  # what was declined is what a client computes, but for what is compiled by now
    assert plan["quotes"] == 3 and needed[0] <= int(plan["lowest_asked"]) <= needed[0] * 1.02
    assert int(plan["lowest_asked"]) <= int(plan["min_price"]) <= int(plan["lowest_asked"]) * 1.3


#: Runs commands in one process, and prints what they have loaded.
LOADS = """import sys
from eigentensor_client.cli import main
for words in sys.argv[1:]:
    try:
        main(words.split())
    except SystemExit as end:
        assert end.code == 0, words
print(*(name for name, module in sys.modules.items() if module), file=sys.stderr)  # None: kept from being imported
"""


def test_commands_that_only_read_load_little(net: Devnet, folder: Path, open_task: str) -> None:
    task = open_task[:10]
    reads = (
        "ps", f"task show {task}", f"task explain {task}", f"logs {task}", "wallet show", "network list",
        "network show", shlex.join(["plan", *RUN[1:]]),
    )  # fmt: skip
    command = [sys.executable, "-c", LOADS, *(f"{words} --quiet" for words in reads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "eigentensor.task.life" in loaded and "eigentensor.program.cost" in loaded
    heavy = {
        "numpy", "rich", "pydantic", "sqlite3", "importlib.metadata", "typing_extensions", "eth_account", "eth_hash",
        "eigentensor.chain.sender", "eigentensor.chain.channels", "eigentensor_client.client",
    }  # fmt: skip
    assert not heavy & loaded


def test_a_gateway_that_hangs_is_named_and_ends_with_the_time(net: Devnet, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        network = json.loads(net.path.read_text()) | {"gateway_url": url}
        (folder / "hung.json").write_text(json.dumps(network))
        with start(*RUN, "--timeout", "12", "-n", "hung.json") as process:
            lines_until(process, f"waits for the gateway at {url}")
            _, err = process.communicate(timeout=60)
    assert process.returncode == 9 and f"not done after 12 s: it waited for the gateway at {url}" in err


@pytest.mark.slow
def test_a_run_is_posted_again_where_nobody_accepted(net: Devnet, operators: list[Party], folder: Path) -> None:
    """Gas is too dear for everybody at first."""
    words = ["--accept-within", "30", "--retries", "9", "--wait", "result", "--timeout", "240", "--json"]
    with start(*RUN, *words) as process:
        with dear_gas(net):
            first = lines_until(process, r"posted\s+(\w{64})")[1]
            lines_until(process, rf"no operator accepted task {first}.*posted again as task \w{{64}}, retry 1 of 9")
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["earlier"][0] == first and result["task"]["task"] not in result["earlier"]
    assert int(result["saved"]) == 5 * 10**16 - int(result["task"]["price"])


def test_cancel_takes_a_task_back(call: Call, call_json: Callable[..., Any], open_task: str) -> None:
    assert call("get", open_task, "-o", "never.safetensors", "--timeout", "0")[0] == 9
    task = call_json("cancel", open_task)
    assert task["state"] == "cancelled"
    code, out, _ = call("logs", open_task, "-f")
    assert code == 0
    assert [line.split("  ")[1] for line in out.splitlines()] == ["posted", "cancelled"]
    code, _, err = call("get", open_task, "-o", "never.safetensors")
    assert code == 6
    assert "was cancelled; the escrow is back" in err
    assert not Path("never.safetensors").exists()


def test_a_wallet_moves_its_tokens_into_the_market_and_back(call: Call, call_json: Callable[..., Any]) -> None:
    before = call_json("wallet", "show")
    there = call_json("wallet", "deposit", "0.25")
    assert int(there["balance"]) == int(before["balance"]) + 25 * 10**16
    back = call_json("wallet", "withdraw", "all")
    assert (back["balance"], int(back["tokens"])) == ("0", int(there["tokens"]) + int(there["balance"]))
    for words in (["deposit", "1000000"], ["withdraw", "1"]):
        assert call("wallet", *words)[0] == 5


def test_a_wallet_is_funded_on_a_local_chain(call: Call, call_json: Callable[..., Any], net: Devnet) -> None:
    stranger = Account.create().address
    there = call_json("wallet", "fund", "2.5", "--to", stranger)
    assert (there["address"], there["key"], there["tokens"]) == (stranger, "elsewhere", str(25 * 10**17))
    assert there["coins"] == str(10**19)
    assert call_json("wallet", "fund", "0", "--to", stranger)["tokens"] == there["tokens"]
    before = call_json("wallet", "show")
    assert int(call_json("wallet", "fund")["tokens"]) == int(before["tokens"]) + 100 * 10**18
    code, _, err = call("wallet", "deposit", "1000000")
    assert code == 5 and "`eigentensor wallet fund`" in err


@pytest.mark.slow
def test_what_up_says_to_type_next_runs_the_operator(call: Call, net: Devnet, monkeypatch: pytest.MonkeyPatch) -> None:
    party = net.party("newcomer")
    monkeypatch.chdir(party.folder)
    monkeypatch.setenv("EIGENTENSOR_OPERATOR_PORT", "0")  # where the usual one is taken
    keys = ["--keystore", "owner.json", "--password-file", "password", "--signer", "signer.json"]
    code, _, err = call("operator", "up", *keys, "--stake", "10", "--collateral", "5", "--data-dir", "data")
    assert code == 0, err
    [command] = re.findall("^next    (.*)$", err, re.M)
    program, *words = shlex.split(command)
    assert program == "eigentensor"
    with start(*words) as daemon:
        assert lines_until(daemon, "ready .*operator=(0x[0-9a-fA-F]+)")[1] == party.address
        daemon.terminate()
        assert daemon.wait(60) == 0


def test_a_network_says_where_its_values_come_from_and_who_executes(
    call_json: Callable[..., Any], net: Devnet, operators: list[Party]
) -> None:
    shown = call_json("network", "show")
    assert (shown["name"], shown["chosen_by"], shown["file"]) == ("local", "the default", str(net.path))
    assert shown["block"] and shown["operators"] == len(call_json("operator", "list")["operators"])
    assert call_json("network", "show", "-n", str(net.path))["chosen_by"] == "--network"
    assert [one["answers"] for one in call_json("network", "list")["networks"]] == [True]


def test_blobs_go_up_and_come_back(call_json: Callable[..., Any], net: Devnet, folder: Path) -> None:
    put = call_json("blob", "put", "w.safetensors")
    assert put["kind"] == "tensors"
    got = call_json("blob", "get", put["computed"], "-o", "back.safetensors")
    assert got["blob"] == put["blob"]
    assert (folder / "back.safetensors").read_bytes() == (folder / "w.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([*RUN, "--check", "often"], 2, "is not a rate"),
        ([*RUN, "--check", "3%"], 11, "a check rate of 3 % is not between 5 % and 100 %"),
        ([*RUN, "--check-fee", "0.05"], 11, "is below the least"),
        ([*RUN, "--wait", "sleep"], 2, "is nothing to wait for"),
        ([*RUN[:-1], "much"], 3, "is not an amount"),
        ([*RUN[:-1], "1000000"], 5, "are needed for the escrow"),
        (["run", "x.program", "--max-price", "1"], 2, "a"),
        (["run", "w.safetensors", "--max-price", "1"], 11, ""),
        (["run", "missing.program", "--max-price", "1"], 4, "No such file"),
        (["run", "ab" * 32, "--max-price", "1"], 4, "neither a file nor a known uuid"),
        (["get", "ab" * 32, "-o", "x"], 4, "there is no task"),
        (["challenge", "show", "4711"], 4, "there is no game 4711"),
        (["blob", "get", "ab" * 32, "-o", "x"], 4, "ab"),
        (["blob", "get", "hello", "-o", "x"], 4, "is not the uuid of a blob"),
        (["ps", "--network", "nowhere"], 3, "there is no network 'nowhere'"),
    ],
)
def test_mistakes_are_explained_and_leave_nothing(
    call: Call, net: Devnet, folder: Path, words: list[str], code: int, says: str
) -> None:
    before = sorted(folder.iterdir())
    returned, out, err = call(*words)
    assert (returned, out) == (code, ""), err
    assert "error  " in err and says in err
    assert sorted(folder.iterdir()) == before


PAGES = [
    pytest.param("README.md", id="front"),
    pytest.param("client/docs/pages/start/terminals.md", id="guide", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_for_three_terminals_run(
    call: Call, net: Devnet, operators: list[Party], client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    page: str,
) -> None:  # fmt: skip
    """All but the first terminal's, which is the network that runs already; the uuid in them is the last task's."""
    first, *lines = commands(ROOT / page, "Three terminals")
    assert first == ["eigentensor", "devnet"] and len(lines) >= 6
    (tmp_path / "client").symlink_to(ROOT / "client")
    monkeypatch.chdir(tmp_path)
    for program, *words in lines:
        if program == "python":
            subprocess.run([sys.executable, *words], check=True, timeout=60)
            continue
        last = next(client.tasks()).uuid if "3f2a" in words else ""
        code, _, err = call(*(last if word == "3f2a" else word for word in words))
        assert code == 0, f"{' '.join(words)}: {err}"
    [written] = [words[words.index("-o") + 1] for words in lines if "-o" in words]
    expected = {"README.md": (256, 256), "client/docs/pages/start/terminals.md": (99, 10)}[page]
    assert load_safetensors(tmp_path / written)["output"].shape == expected
