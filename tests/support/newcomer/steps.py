"""The steps of a first day, each in the commands that the pages name."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import psutil

from support.newcomer.files import FUNCTION, MANY, bring, is_right
from support.newcomer.walk import Typed, Walk, Wrong, say

SEED = 2026
PARALLEL, EACH = 25, 400 << 20  #: runs at the same time, and bytes that each may need of this machine's memory
FIRST_WORD = 5.0  #: seconds after which whoever waits for a silent gateway has read something
SECRET = "EIGENTENSOR_PASSWORD_FILE=password.txt"
RUN = "eigentensor run mlp.onnx -i x=@x.npy"
Step = Callable[[Walk], str]


def own_model(walk: Walk) -> str:
    """A model of one's own on a machine where nothing runs and nothing is kept: one command to a checked result."""
    bring(walk.machine.folder, SEED)
    typed = walk.type(f"{RUN} --wait checked -o out.safetensors")
    typed.find(r"^state +checked\(1\)")
    _expect(walk, "out.safetensors")
    return f"checked result after {typed.seconds:.1f} s"


def demo(walk: Walk) -> str:
    """What the protocol does."""
    return walk.type("eigentensor demo").find(r"^Nothing is left of it\. .*")[0]


def init(walk: Walk) -> str:
    """An example to begin with, by the commands that the page of the examples shows."""
    (walk.machine.folder / "mine").mkdir()
    with _inside(walk, "mine"):
        walk.type("eigentensor init").find("^pytorch_mlp ")
        walk.type("eigentensor init pytorch_mlp")
        walk.type("eigentensor run mlp.onnx -i @input.safetensors --wait checked -o output.safetensors")
        walk.type("cmp output.safetensors expected.safetensors")
    return "every bit is the expected one"


def own_function(walk: Walk) -> str:
    """A function of one's own in tinygrad, as a paid task, from Python and from the command line."""
    walk.write("net.py", FUNCTION)
    typed = walk.type("python net.py")
    typed.find("^equal$")
    walk.type("eigentensor plan net.py:forward -i x=@x.npy").find("^price ")
    walk.type("eigentensor run net.py:forward -i x=@x.npy --wait result -o y.safetensors")
    return "the bits of this machine"


def many(walk: Walk) -> str:
    """Fifty tasks by `map`, each of them checked."""
    walk.write("many.py", MANY)
    return walk.type("python many.py").find("^50 results, 50 equal")[0]


def parallel(walk: Walk) -> str:
    """Runs in as many terminals at the same time, of one account."""
    most = min(PARALLEL, max(1, psutil.virtual_memory().available // EACH))
    with ThreadPoolExecutor(most) as pool:
        lines = [f"{RUN} --wait result -o parallel-{number}.safetensors" for number in range(PARALLEL)]
        typed = list(pool.map(lambda line: walk.type(line, quiet=True), lines))
    seconds = sorted(one.seconds for one in typed)
    say(f"  $ {lines[0]}    and {PARALLEL - 1} more: {seconds[0]:.1f} to {seconds[-1]:.1f} s")
    for number in range(PARALLEL):
        _expect(walk, f"parallel-{number}.safetensors")
    return f"{PARALLEL} right results" + ("" if most == PARALLEL else f", {most} at a time: memory allows no more")


def wrong_shape(walk: Walk) -> str:
    """An input that does not fit; then one of the shape that the error names."""
    refused = walk.type("eigentensor run mlp.onnx -i x=@wrong.npy", 7)
    named = refused.find(r"^  fix  Give 'x' the shape \((\d+), (\d+)\)")
    np.save(walk.machine.folder / "fits.npy", np.zeros((int(named[1]), int(named[2])), np.float32))
    walk.type("eigentensor run mlp.onnx -i x=@fits.npy --wait result")
    forgotten = walk.type("eigentensor run mlp.onnx", 2)
    forgotten.find(r"missing x$")
    return refused.find(r"^error  (.*)")[1]


def hung_gateway(walk: Walk) -> str:
    """A gateway that takes the call and says nothing."""
    shown = json.loads(walk.type("eigentensor network show --json").out)
    with socket.create_server(("127.0.0.1", 0)) as silent, open(shown["file"]) as file:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        (walk.machine.folder / "hung.json").write_text(json.dumps(json.load(file) | {"gateway_url": url}))
        typed = walk.type(f"{RUN} --network hung.json --timeout 15", 9)
    first, named = typed.when(r"\w"), typed.when(f"waits for the gateway at {url}")
    if first > FIRST_WORD:
        raise Wrong(f"the first word came after {first:.1f} s")
    typed.find(f"it waited for the gateway at {url}")
    return f"first word after {first:.1f} s, the gateway named after {named:.1f} s, ended after {typed.seconds:.1f} s"


def low_price(walk: Walk) -> str:
    """A price for which nobody works; then the one that the error names."""
    refused = walk.type(f"{RUN} --max-price 0.00001 --accept-within 20", 6)
    refused.find(r"operators said price")
    enough = refused.find(r"^  fix  .*would accept at a price of (0\.\d+) TETH: a higher --max-price")[1]
    walk.type(refused.find("`(eigentensor task explain [0-9a-f]+)`")[1]).find(f"price of {enough}")
    walk.type(f"{RUN} --max-price {enough} --wait result -o enough.safetensors")
    _expect(walk, "enough.safetensors")
    return f"{enough} TETH were asked for, and accepted"


def wallet(walk: Walk) -> str:
    """A wallet of one's own, without money; then with what the error says how to get."""
    (walk.machine.folder / "password.txt").write_text("short\n")
    walk.type("eigentensor wallet new alice --password-file password.txt", 3).find(r"^  fix  Choose a longer one")
    (walk.machine.folder / "password.txt").write_text("correct horse battery staple\n")
    made = walk.type("eigentensor wallet new alice --password-file password.txt")
    me = f"{made.find('EIGENTENSOR_KEYSTORE=alice')[0]} {SECRET}"
    poor = walk.type(f"{me} {RUN} --wait result", 5)
    walk.type(f"{me} {poor.find('`(eigentensor wallet fund)`')[1]}")
    walk.type(f"{me} eigentensor wallet show").find(r"^wallet +100 TETH")
    walk.type(f"{me} {RUN} --wait result -o alice.safetensors")
    _expect(walk, "alice.safetensors")
    return poor.find(r"^error  (.*)")[1]


def operator(walk: Walk) -> str:
    """An operator of one's own, and what it earned by a task that it alone may accept."""
    owner, hot = (_account(walk, name) for name in ("owner", "hot"))
    me = f"EIGENTENSOR_KEYSTORE=owner {SECRET}"
    up = f"{me} eigentensor operator up --signer hot --stake 10 --collateral 10"
    for account in (owner, hot):  # what is missing is said one after the other
        walk.type(up, 5).find(rf"{account} has no gas$")
        walk.type(f"eigentensor wallet fund --to {account}")
    joined = walk.type(up)
    following = joined.find("^next +(eigentensor operator run .*)")[1]
    port = "" if _is_free(9091) else "EIGENTENSOR_OPERATOR_PORT=0 "
    with walk.going_on(port + following, r"\bready\b"):
        walk.type(f"{RUN} --operator {owner} -o own.safetensors").find(f"^executor +{owner}")
        _expect(walk, "own.safetensors")
        status = walk.type("eigentensor operator status")
        json.loads(walk.type("eigentensor operator status --json").out)
        walk.type("eigentensor operator drain --wait")
    earned = status.find(r"^earned today +(.*)")[1]
    if not float(earned.split()[0]) > 0:
        raise Wrong(f"it earned {earned}")
    return f"earned {earned}"


def screens(walk: Walk) -> str:
    """What is printed, in terminals of 80 and 120 columns: no line is wider, and both say the same."""
    lines = {
        "eigentensor init": 0, "eigentensor network show": 0, "eigentensor wallet list": 0, "eigentensor ps": 0,
        "eigentensor plan mlp.onnx -i x=@x.npy --max-price 0.05": 0, "eigentensor network show --network nowhere": 3,
        f"{RUN} --wait result -o screen.safetensors": 0, "eigentensor --help": 0, "eigentensor run --help": 0,
    }  # fmt: skip
    still = {"eigentensor init", "eigentensor wallet list", "eigentensor network show --network nowhere"}
    for line, code in lines.items():
        narrow, wide = (walk.shown(line, columns, code) for columns in (80, 120))
        for columns, printed in ((80, narrow), (120, wide)):
            if broad := [text for text in printed if len(text) > columns]:
                raise Wrong(f"`{line}` is wider than {columns} columns: {broad[0]}")
        if line in still and "".join("".join(narrow).split()) != "".join("".join(wide).split()):
            raise Wrong(f"`{line}` says other words in 80 columns than in 120")
    return f"{len(lines)} commands"


STEPS: tuple[tuple[str, Step], ...] = (
    ("an own ONNX file", own_model),
    ("demo", demo),
    ("init", init),
    ("an own tinygrad file", own_function),
    ("map of 50", many),
    (f"{PARALLEL} parallel runs", parallel),
    ("a wrong shape", wrong_shape),
    ("a hung gateway", hung_gateway),
    ("a price too low", low_price),
    ("wallet fund", wallet),
    ("an operator of one's own", operator),
    ("screens", screens),
)
FIRST = 2  #: of the steps, where no network runs


@contextmanager
def network(walk: Walk) -> Iterator[Typed]:
    """The local network in a terminal of its own, on its usual ports where they are free."""
    ports = "" if _is_free(8545) and _is_free(8600) else " --port 0 --gateway-port 0"
    with walk.going_on(f"eigentensor devnet{ports}", "Ctrl-C ends everything") as typed:
        yield typed


def nothing_left(walk: Walk) -> str:
    """Held against what a network has while it runs: its file, and processes of the machine."""
    kept = [path.name for path in walk.machine.home.rglob("networks/*")]
    mine = str(walk.machine.bin)
    kept += [
        process.info["name"]
        for process in psutil.process_iter(["name", "cmdline"])
        if mine in " ".join(process.info["cmdline"] or [])
    ]
    if kept:
        raise Wrong(f"the network leaves {', '.join(kept)}")
    return "nothing is left of it"


def _account(walk: Walk, name: str) -> str:
    made = walk.type(f"eigentensor wallet new {name} --password-file password.txt")
    return made.find(r"^address +(0x\w+)")[1]


def _expect(walk: Walk, outputs: str) -> None:
    if not is_right(walk.machine.folder, outputs):
        raise Wrong(f"{outputs} is not what the model computes")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@contextmanager
def _inside(walk: Walk, folder: str) -> Iterator[None]:
    before, walk.folder = walk.folder, walk.folder / folder
    try:
        yield
    finally:
        walk.folder = before
