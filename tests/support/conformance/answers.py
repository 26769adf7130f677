"""What a case must give: hashes of the program, of what it runs on, and of the result of each call."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from support.generated.programs import Example
from support.generated.trials import Group, Trial
from support.oracles.agreement import PLAIN, Run, Way, exposed, rows_of

FILE = Path(__file__).parents[2] / "vectors" / "conformance.json"
DIGITS = 16  #: of a hash that are kept


class Answer(NamedTuple):
    """Of a case: hashes in hex, one for each call, over all groups and sets."""

    program: str
    tensors: str
    calls: tuple[str, ...]


class Wrong(NamedTuple):
    """A case that gave something else: the first call whose hash differs, or None if only a plain run differs; and the
    hashes that were given, where something was executed."""

    call: int | None
    what: str
    given: tuple[str, ...] = ()


@cache
def committed() -> dict[str, Answer]:
    """The answers that are in the repository."""
    return {name: Answer(of[0], of[1], tuple(of[2])) for name, of in json.loads(FILE.read_text()).items()}


def text_of(answers: Mapping[str, Answer]) -> str:
    """The file, a case a line."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in answers.items()) + "\n}\n"


def hash_of(program: Program) -> str:
    """As an answer has it."""
    return sha256(encode(program)).hexdigest()[:DIGITS]


def by_reference(trial: Trial) -> Answer:
    """What the reference gives."""
    hashes = _hashes(trial)
    for group, rows in zip(trial.groups, rows_of(trial), strict=True):
        for n in range(len(group.sets)):
            for call, row in rows.items():
                hashes[call].update(row[n])
    return _answer(trial, hashes)


def by_device(trial: Trial, way: Way, plain_sets: int = PLAIN) -> tuple[Answer, list[str]]:
    """What a way of executing gives, the results of all calls given out; and names of results that are others where
    they are not, and lie over each other, for so many sets of each group."""
    hashes, run, apart = _hashes(trial), way(exposed(trial.program)), list[str]()
    plain = way(trial.program) if plain_sets else run
    for group in trial.groups:
        for n, example in enumerate(examples(trial, group)):
            results = results_of(example, run)
            for call, result in enumerate(results):
                hashes[call].update(np.ascontiguousarray(result))
            if n < plain_sets:
                apart += _apart(example, results, plain)
    return _answer(trial, hashes), apart


def wrong(trial: Trial, expected: Answer, way: Way, plain_sets: int = PLAIN) -> Wrong | None:
    """Where a way of executing differs from an answer: in a call, or only where results lie over others, as
    `by_device` looks for it."""
    if changed := _changed(trial, expected):
        return Wrong(None, changed)
    given, apart = by_device(trial, way, plain_sets)
    for call, (ours, theirs) in enumerate(zip(given.calls, expected.calls, strict=True)):
        if ours != theirs:
            return Wrong(call, f"call {call} has the hash {ours} instead of {theirs}", given.calls)
    return Wrong(None, f"others without giving out every call: {', '.join(apart)}", given.calls) if apart else None


def examples(trial: Trial, group: Group) -> Iterator[Example]:
    """Each set of a group."""
    for tensors in group.sets:
        yield Example(trial.program, tensors, dict(group.variables), trial.repeat)


def results_of(example: Example, run: Run) -> list[NDArray[Any]]:
    """The result of each call by the way that `exposed` made."""
    outputs = run(example.tensors, example.variables, example.repeat).outputs
    return [outputs[str(call)] for call in range(len(example.program.calls))]


def _apart(example: Example, calls: list[NDArray[Any]], plain: Callable[..., Results]) -> list[str]:
    """The names of results with other bits than those of their calls."""
    program, results = example.program, plain(example.tensors, example.variables, example.repeat)
    named = {**results.outputs, **results.states}
    first = len(program.buffers)
    return [r.name for r in program.results if named[r.name].tobytes() != calls[r.buffer - first].tobytes()]


def _changed(trial: Trial, expected: Answer) -> str:
    """Why nothing can be compared: this machine made another program, or other tensors."""
    here = _answer(trial, [])
    if here.program != expected.program:
        return "this machine makes another program of it: nothing was compared"
    return "" if here.tensors == expected.tensors else "this machine makes other tensors of it: nothing was compared"


def _answer(trial: Trial, hashes: Iterable[Any]) -> Answer:
    tensors = sha256()
    for example in (example for group in trial.groups for example in examples(trial, group)):
        for name, array in sorted(example.tensors.items()):
            array = np.ascontiguousarray(array)
            tensors.update(f"{name} {array.dtype} {array.shape}\0".encode())
            tensors.update(array.reshape(-1).view(np.uint8).data)
        tensors.update(repr(sorted(example.variables.items())).encode())
    return Answer(hash_of(trial.program), tensors.hexdigest()[:DIGITS], tuple(h.hexdigest()[:DIGITS] for h in hashes))


def _hashes(trial: Trial) -> list[Any]:
    return [sha256() for _ in trial.program.calls]
