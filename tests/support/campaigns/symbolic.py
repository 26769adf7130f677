"""Proofs about the contracts for all inputs at once: halmos over `contracts/test/symbolic`.

scripts/symbolic             every proof, with its time
scripts/symbolic Float32     those whose name has this in it
scripts/symbolic --mutants   that each of the faults in `symbolic_mutants` is refuted

A proof is a Solidity function whose assertions hold on every path: a solver refutes the negation of each. No answer in
time, a path that cannot be followed and a loop that was cut off are failures. The tools are installed on first use,
from `contracts/symbolic.lock`, and serve nothing else.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CONTRACTS = ROOT / "contracts"
PROOFS = Path("test/symbolic")
LOCK = CONTRACTS / "symbolic.lock"
WORK = ROOT / ".scratch/symbolic"
PROVED, REFUTED, STUCK = 0, 1, 3  # of halmos' exit codes
LOOPS = 300  # more than any loop in a proof takes
SECONDS = 1500  # for one query of the solver


@dataclass(frozen=True, slots=True)
class Check:
    """A proof: a function of a contract in a file."""

    file: str
    contract: str
    function: str

    def __str__(self) -> str:
        return f"{self.contract.removesuffix('Symbolic')}.{self.function.removeprefix('check_')}"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: in `file`, `before`, which stands there once, becomes `after`; `check` refutes it."""

    check: str
    file: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.check}: {self.after}"

    def put(self, project: Path) -> None:
        """Put the fault into a copy of the contracts."""
        path = project / "src/libraries" / self.file
        text = path.read_text()
        if (count := text.count(self.before)) != 1:
            raise ValueError(f"{self.before!r} stands {count} times in {self.file}")
        path.write_text(text.replace(self.before, self.after))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What halmos told of a proof, and the processors' seconds that it took, with the compiler's."""

    code: int
    paths: int
    loops_cut: int
    seconds: float
    output: str

    @property
    def proved(self) -> bool:
        return self.code == PROVED and self.loops_cut == 0

    @property
    def refuted(self) -> bool:
        """Whether there is a counterexample, or a path that reads where none can be followed."""
        return self.code in (REFUTED, STUCK)


def checks(name: str = "") -> list[Check]:
    """Every proof that there is and whose name contains `name`."""
    proofs = []
    for path in sorted((CONTRACTS / PROOFS).glob("*.t.sol")):
        text = path.read_text()
        (contract,) = re.findall(r"^contract (\w+)", text, re.MULTILINE)
        proofs += [Check(path.name, contract, function) for function in re.findall(r"function (check_\w+)", text)]
    return [check for check in proofs if name in str(check)]


def copied(name: str, check: Check) -> Path:
    """A copy of the contracts with what a proof needs, to be built in: what did not change is not compiled again."""
    to = WORK / name / check.contract
    shutil.rmtree(to / "src", ignore_errors=True)
    shutil.copytree(CONTRACTS / "src", to / "src")
    (to / PROOFS).mkdir(parents=True, exist_ok=True)
    for part in ("foundry.toml", "solc.js", PROOFS / "Nearest.sol", PROOFS / check.file):
        shutil.copy2(CONTRACTS / part, to / part)
    if not (to / "node_modules").exists():
        (to / "node_modules").symlink_to(CONTRACTS / "node_modules")
    return to


def prove(check: Check, mutant: Mutant | None = None, seconds: int = SECONDS) -> Outcome:
    """Whether the proof goes through, for contracts with a fault in them if one is given."""
    project = copied("mutant" if mutant else "proof", check)
    if mutant:
        mutant.put(project)
    tools = _tools()
    result = project / "result.json"
    result.unlink(missing_ok=True)  # of the last proof: a halmos that dies leaves none of its own
    environment = {
        **os.environ,
        **dict.fromkeys(("FOUNDRY_SRC", "FOUNDRY_TEST", "FOUNDRY_SCRIPT"), str(PROOFS)),
        "FOUNDRY_LINT_LINT_ON_BUILD": "false",
        "FOUNDRY_DENY": "never",  # a fault may leave a parameter unused
        "PATH": f"{tools}:{CONTRACTS}/node_modules/.bin:{os.environ['PATH']}",
    }
    options = {
        "--root": project,
        "--contract": check.contract,
        "--match-test": rf"^{check.function}\(",
        "--panic-error-codes": "*",
        "--loop": LOOPS,
        "--solver-command": f"{tools}/python {CONTRACTS / PROOFS}/solve.py",
        "--solver-timeout-assertion": f"{seconds}s",
        "--json-output": result,
    }
    arguments = [str(part) for option in options.items() for part in option]
    begin = _spent()
    run = subprocess.run(
        [tools / "python", CONTRACTS / PROOFS / "prove.py", "--no-status", "--early-exit", *arguments],
        cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if not result.exists():
        raise RuntimeError(f"halmos gave no result:\n{run.stdout}")
    ((test,),) = json.loads(result.read_text())["test_results"].values()
    spent = _spent() - begin
    return Outcome(test["exitcode"], test["num_paths"][0], test["num_bounded_loops"], spent, run.stdout)


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tools() -> Path:
    """Where halmos and its solver are."""
    place = WORK / "tools"
    stamp = place / "installed"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        venv.create(place, clear=True, with_pip=True)
        pip: list[str | Path] = [place / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", LOCK], check=True)
        stamp.write_text(digest)
    return place / "bin"


def main() -> int:
    from support.campaigns.symbolic_mutants import MUTANTS

    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--mutants", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for check in checks(arguments.name):
        for mutant in [mutant for mutant in MUTANTS if mutant.check == str(check)] if arguments.mutants else [None]:
            outcome = prove(check, mutant)
            succeeded = outcome.refuted if mutant else outcome.proved
            failed += not succeeded
            verdict = ("" if succeeded else "NOT ") + ("refuted" if mutant else "proved")
            sys.stdout.write(f"{verdict:12}{outcome.seconds:7.1f} s{outcome.paths:6} paths  {mutant or check}\n")
            sys.stdout.flush()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
