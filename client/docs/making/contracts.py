"""The contracts from their NatSpec, as the compiler reads it, and the numbered invariants with what guards them."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from docs.making.markup import code, fenced, plain, table
from docs.making.sections import ROOT, section

_CONTRACTS = ROOT / "contracts"
_SHOWN = ("ITaskMarket", "IMarket", "IChannels", "IDisputeGame", "IReferee", "IServiceManager", "IBounty")
_KINDS = {"function": "Messages and reads", "event": "Events", "error": "Refusals"}


def pages() -> dict[str, str]:
    """Texts by their places under the folder of the reference."""
    contracts = {name: _contract(name, *_compiled(name)) for name in _SHOWN}
    named = {f"contracts/{name[1:]}.md": text for name, text in contracts.items()}
    return named | {"contracts/structs.md": _structs(), "contracts/invariants.md": _invariants()}


@cache
def _output() -> Mapping[str, Any]:
    """What the compiler says of the sources without making code of them."""
    roots = {"": _CONTRACTS / "src", "@openzeppelin/contracts/": _CONTRACTS / "node_modules/@openzeppelin/contracts"}
    sources = {
        f"{prefix or 'src/'}{path.relative_to(folder)}": {"content": path.read_text()}
        for prefix, folder in roots.items()
        for path in sorted(folder.rglob("*.sol"))
    }
    asked = {"*": {"*": ["abi", "devdoc", "userdoc"]}}
    task = {"language": "Solidity", "sources": sources, "settings": {"evmVersion": "osaka", "outputSelection": asked}}
    command = ["node", str(_CONTRACTS / "solc.js")]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True, check=True)
    result: Mapping[str, Any] = json.loads(done.stdout)
    failed = [error["formattedMessage"] for error in result.get("errors", ()) if error["severity"] == "error"]
    if failed:
        raise RuntimeError("\n".join(failed))
    return result


def _compiled(name: str) -> tuple[list[Any], Mapping[str, Any], Mapping[str, Any]]:
    for contracts in _output()["contracts"].values():
        if name in contracts:
            return contracts[name]["abi"], contracts[name]["userdoc"], contracts[name]["devdoc"]
    raise LookupError(name)


def _contract(name: str, abi: list[Any], user: Mapping[str, Any], dev: Mapping[str, Any]) -> str:
    parts = [f"# {name[1:]}", plain(dev.get("title", "")), _paragraphs(user.get("notice", ""))]
    parts.append(f"The interface is `{name}`; its source is in `contracts/src/interfaces`.")
    for kind, title in _KINDS.items():
        entries = sorted((one for one in abi if one["type"] == kind), key=lambda one: one["name"])
        if kind == "error":
            rows = [(code(one["name"]), ", ".join(code(_argument(x)) for x in one["inputs"])) for one in entries]
            parts += [f"## {title}", table(("refusal", "says"), rows)] * bool(rows)
        elif entries:
            parts += [f"## {title}", *(part for one in entries for part in _entry(one, user, dev))]
    return "\n\n".join(filter(None, parts)) + "\n"


def _entry(one: Mapping[str, Any], user: Mapping[str, Any], dev: Mapping[str, Any]) -> Iterator[str]:
    group = "events" if one["type"] == "event" else "methods"
    signature = f"{one['name']}({','.join(map(_canonical, one['inputs']))})"
    said, more = user.get(group, {}).get(signature, {}), dev.get(group, {}).get(signature, {})
    yield f"### {one['name']}"
    yield fenced(_declaration(one), "solidity")
    yield _paragraphs(said.get("notice", ""))
    yield _paragraphs(more.get("details", ""))
    yield table(("argument", ""), [(code(name), plain(text)) for name, text in more.get("params", {}).items()])
    yield table(("returns", ""), [(code(name), plain(text)) for name, text in more.get("returns", {}).items()])


def _declaration(one: Mapping[str, Any]) -> str:
    inputs = ", ".join(map(_argument, one["inputs"]))
    if one["type"] == "event":
        return f"event {one['name']}({inputs})"
    outputs = ", ".join(map(_argument, one["outputs"]))
    changes = "" if one["stateMutability"] == "nonpayable" else f" {one['stateMutability']}"
    return f"function {one['name']}({inputs}) external{changes}" + (f" returns ({outputs})" if outputs else "")


def _argument(one: Mapping[str, Any]) -> str:
    kind = one.get("internalType", one["type"]).removeprefix("struct ").removeprefix("enum ").removeprefix("contract ")
    return f"{kind}{' indexed' if one.get('indexed') else ''} {one['name']}".strip()


def _canonical(one: Mapping[str, Any]) -> str:
    if not one["type"].startswith("tuple"):
        return str(one["type"])
    return f"({','.join(map(_canonical, one['components']))}){one['type'].removeprefix('tuple')}"


def _paragraphs(text: str) -> str:
    return "\n\n".join(map(plain, re.split(r"\n\s*\n", text)))


def _structs() -> str:
    """Structs and enums, which the compiler documents nowhere: as their sources have them."""
    parts = ["# Structs", "What messages, reads and events are made of."]
    for file in ("Tasks.sol", "Deals.sol"):
        text = (_CONTRACTS / "src" / "interfaces" / file).read_text()
        pattern = r"((?:^/// .*\n)*)^((?:struct|enum) (\w+) \{\n.*?^\})"
        for comment, declaration, name in re.findall(pattern, text, re.MULTILINE | re.DOTALL):
            said = re.sub(r"^/// ?(?:@\w+ )?", "", comment, flags=re.MULTILINE)
            parts += [f"## {name}", plain(said), fenced(declaration, "solidity")]
    return "\n\n".join(filter(None, parts)) + "\n"


def _invariants() -> str:
    """The section of the contracts' page, and what stands at the guards."""
    text = section("contracts/README.md", "Invariants").text
    guards: dict[int, list[str]] = {}
    for path in sorted((_CONTRACTS / "src").rglob("*.sol")):
        source = path.read_text()
        for number, said in re.findall(r"INVARIANT (\d+): ([^\n]*(?:\n\s*//[^\n]*)*)", source):
            guards.setdefault(int(number), []).append(
                f"`{path.name}`: {plain(re.split(r'INVARIANT', _joined(said))[0])}"
            )
    rows = [(number, plain(sentence), "<br>".join(guards.get(int(number), ()))) for number, sentence in numbered(text)]
    return (
        "# Invariants\n\n@include contracts/README.md: Invariants\n\n## What guards them\n\n"
        "Comments in the contracts name the invariant that they keep.\n\n" + table(("", "invariant", "guards"), rows)
    )


def numbered(text: str) -> list[tuple[str, str]]:
    """The sentences of the section after their numbers, in the order of these."""
    flat = " ".join(part for part in re.split(r"\n\s*\n", text) if part.lstrip().startswith("*"))
    flat = " ".join(re.sub(r"\*\w+\.?\*(?: \([^)]*\)\.)?", "", flat).split())
    found = re.findall(r"(?:^|(?<=\. ))(\d{1,2}) (.*?\.)(?= \d{1,2} |$)", flat)
    return sorted(found, key=lambda one: int(one[0]))


def _joined(comment: str) -> str:
    return " ".join(line.strip().lstrip("/ ") for line in comment.split("\n"))
