"""What a Solidity library does as Python does has Python's name; every external function has its interface's prose."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from eigentensor import merkle
from eigentensor.channel import lines, signed
from eigentensor.dispute import encoding, position, results, rules, trees
from eigentensor.economics import shares, terms
from eigentensor.numerics import conversion, floats, integers, operations
from eigentensor.tracing import hashes, proof, step

SOURCES = Path(__file__).resolve().parents[2] / "contracts/src"

#: The modules that a library mirrors, and what it has beside them, by what that is.
MIRRORED: dict[str, tuple[tuple[ModuleType | type, ...], dict[str, str]]] = {
    "Merkle": (
        (merkle, hashes),
        {
            "of one leaf, where Python hashes all": "leafHash",
            "of bytes in memory": "climbIn",
            "a method of Python's trees": "depth",
            "only the market asks": "admits",
        },
    ),
    "Terms": ((terms,), {}),
    "Shares": ((shares,), {}),
    "Lines": (
        (merkle, lines.Line, lines.CallPlace),
        {"`call_hash`, beside that of a tensor's leaf": "leafHash", "methods `leads_to`": "check"},
    ),
    "Signed": ((signed,), {"`is_signed_by`": "check"}),
    "Frontier": ((merkle.Frontier,), {"its constructor": "from", "`int.bit_count`": "count"}),
    "Moves": (
        (rules, trees, results),
        {"methods of Position and Phase": "isExecutors spend clock", "a part of `_judge_call`": "pickFinal"},
    ),
    "Positions": ((position.Position,), {"`unpack` into memory that is there": "read"}),
    "Claims": ((proof,), {}),
    "Step": ((step,), {"`length_of` and `identity_of` at once": "reductionOf"}),
    "Patterns": ((step, encoding), {"of types": "size sizeOfAll", "of many": "check"}),
    "Scalar": ((operations,), {"`OPERATIONS` by name": "evaluate"}),
    "Convert": ((conversion, operations), {"`patterns` of one value": "toPattern", "of types": "isFloat"}),
    "Float32": ((floats,), {"of patterns": "isNan log2 _rounded"}),
    "Float32Order": ((floats,), {"NumPy's": "less equal"}),
    "Half": ((floats,), {}),
    "Integers": ((integers,), {"of types": "width isSigned wrap limits", "NumPy's": "maximum minimum less"}),
}


def functions(library: str) -> list[str]:
    """The functions of a library that others can call."""
    text = (SOURCES / "libraries" / f"{library}.sol").read_text()
    heads = re.findall(r"function (\w+)\(([^{;]*)\{", text)
    return [name for name, rest in heads if re.search(r"\b(internal|external)\b", rest)]


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda upper: "_" + upper[0].lower(), name)


@pytest.mark.parametrize("library", MIRRORED)
def test_what_mirrors_python_has_its_name(library: str) -> None:
    modules, others = MIRRORED[library]
    alone = " ".join(others.values()).split()
    assert set(alone) <= set(functions(library)), "exceptions that there are"
    for name in functions(library):
        there = any(hasattr(module, prefix + snake(name)) for module in modules for prefix in ("", "_"))
        assert there is not (name in alone), f"{library}.{name}"


def test_every_library_that_mirrors_python_is_held_to_it() -> None:
    libraries = (SOURCES / "libraries").glob("*.sol")
    assert {path.stem for path in libraries if re.search("[Mm]irror", path.read_text())} <= set(MIRRORED)


@pytest.mark.parametrize("contract", ["TaskMarket", "Channels", "ServiceManager", "Bounty", "DisputeGame", "Referee"])
def test_every_external_function_has_the_prose_of_its_interface(contract: str) -> None:
    text = (SOURCES / f"{contract}.sol").read_text()
    heads = list(re.finditer(rf"^    (?:{EXTERNAL}|{GETTER})", text, re.MULTILINE))
    assert len(heads) > 5
    for head in heads:
        before = text[: head.start()].splitlines()[-2:]
        assert any("/// @inheritdoc" in line for line in before), head[0]
    names = {name for path in (SOURCES / "interfaces").glob("I*.sol") for name in undocumented(path.read_text())}
    assert not names - CORE


EXTERNAL, GETTER = r"function \w+\([^{;]*?\b(?:external|public)\b", r"(?:mapping\([^\n]*|[^\n(/]*)\bpublic\b"
#: What EigenLayer's own interfaces document.
CORE = set(re.findall(r"function (\w+)", (SOURCES / "interfaces/IEigenLayer.sol").read_text()))


def undocumented(text: str) -> list[str]:
    lines = text.splitlines()
    heads = ((number, re.match(r"    function (\w+)", line)) for number, line in enumerate(lines))
    return [head[1] for number, head in heads if head and not lines[number - 1].lstrip().startswith("///")]
