"""Writes dispute.json: questions to the referee as bytes, one a line, with its answers, and the positions of a game.

Steps are judged in Python by `tracing.evaluate_step`; that they are right in the first place is for referee.json.
"""

import json
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from eigentensor.dispute import Side
from eigentensor.dispute.encoding import (
    call_bytes,
    collect_bytes,
    kernel_bytes,
    kernel_hash,
    result_bytes,
    witness_bytes,
)
from eigentensor.dispute.position import CLAIM, FINAL, POSITION
from eigentensor.program import Kind
from eigentensor.tracing import (
    Element,
    Execution,
    Point,
    claim_of,
    evaluate_step,
    implied,
    kernel_of,
    prove_call,
    prove_outputs,
    prove_result,
    witness_of,
)
from eigentensor.tracing.step import identity_of, length_of, reduction_dtypes
from support.generated.programs import Example, generate
from support.programs.captured import graphs
from support.programs.worked_examples import session
from support.stories.games import account_of, honest, play
from support.stories.liars import Fault, Liar

SEEDS = (2, 5, 6, 9)
GRAPHS = ("argmax", "decoder step", "digits", "embedding", "long sum", "softmax")
CALLS = 2  #: of each program

_SHAPE = "(uint8,uint64,uint64,bytes32)"
_POINT = "(uint256,uint256,uint256,uint256,uint256[])"


def text() -> str:
    cells = ",\n".join(json.dumps(cell, separators=(",", ":")) for cell in questions())
    positions = ",\n".join(json.dumps(cell, separators=(",", ":")) for cell in game())
    return f'{{"cells": [\n{cells}\n],\n"positions": [\n{positions}\n]}}\n'


def questions() -> Iterator[dict[str, str]]:
    """A cell is calldata for the referee, and what it returns."""
    for name, example in examples():
        account, random = account_of(example), Random(1)
        claim = astuple(claim_of(account))
        roots = [claim[0], account.encoded[0], account.records.root]
        calls = len(example.program.calls)
        yield _cell(f"{name}, header", "calls", ["bytes32"] * 3, roots, ["uint256"], [calls])
        proof = collect_bytes(prove_outputs(account))
        yield _cell(f"{name}, outputs", "collect", [CLAIM, "bytes"], [claim, proof], ["bytes32"], [account.outputs])
        for number in {0, len(example.program.results) - 1}:
            yield _of_result(f"{name}, result {number}", account, number)
        for number in sorted(random.sample(range(len(account.calls)), min(CALLS, len(account.calls)))):
            yield from _of_call(f"{name}, executed call {number}", account, number, random)


def examples() -> Iterator[tuple[str, Example]]:
    yield "session", session()
    for seed in SEEDS:
        yield f"generated {seed}", generate(seed)
    for name in GRAPHS:
        yield name, captured(name)


def captured(name: str) -> Example:
    """A graph on numbers that are exact: weights drawn by somebody's logarithm may differ in a bit."""
    graph, random = graphs()[name], np.random.default_rng(9)
    graph_program = graph.captured()
    tensors = {
        key: (random.integers(-512, 512, np.shape(value)) / 64).astype(np.float32)
        if np.asarray(value).dtype == np.float32
        else np.asarray(value)
        for key, value in graph.bound(graph_program).items()
    }
    return Example(graph_program.program, tensors, {v.name: v.minimum + 1 for v in graph_program.program.variables}, 1)


def game() -> Iterator[dict[str, object]]:
    """The positions of a dispute about an accumulator in the middle of a long sum."""
    example = captured("long sum")
    true = account_of(example)
    liar = Liar(true, example.tensors, Fault(0, 7, 30, 0, 33))
    played = play(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))
    for number, position in enumerate(played.positions, 1):
        with_task = replace(position, task=keccak(b"task"))
        encoded = encode(["uint256", POSITION], [number, with_task.pack()])
        yield {"encoded": _hex(encoded), "hash": _hex(with_task.hash(number))}


def _of_result(name: str, account: Execution, number: int) -> dict[str, str]:
    proof, claim = prove_result(account, number), claim_of(account)
    results, kind, leaf = implied(proof, claim)
    asked = [astuple(claim), number, result_bytes(proof)]
    returns = [results, kind is Kind.STATE, leaf]
    return _cell(name, "result", [CLAIM, "uint256", "bytes"], asked, ["uint256", "bool", "bytes32"], returns)


def _of_call(name: str, account: Execution, number: int, random: Random) -> Iterator[dict[str, str]]:
    claim, proof, kernel = astuple(claim_of(account)), prove_call(account, number), kernel_of(account, number)
    body = account.body(number)
    (dtype, elements), types = body.parameters[0], reduction_dtypes(body)
    shape = (int(dtype), elements, int.from_bytes(bytes(types), "little"), kernel_hash(kernel))
    asked = [claim, number, proof.root, call_bytes(proof)]
    yield _cell(f"{name}, call", "call", [CLAIM, "uint256", "bytes32", "bytes"], asked, [_SHAPE], [shape])
    for k in range(len(types)):
        known = [length_of(body, kernel.variables, k), identity_of(body, k)]
        yield _cell(
            f"{name}, reduction {k}", "reduction", ["bytes", "uint256"], [kernel_bytes(kernel), k],
            ["uint256", "uint256"], known,
        )  # fmt: skip
    if elements:
        element = Element(account, number, random.randrange(elements))
        for point in points(element, random):
            witness = witness_of(account, element, point)
            reduction = FINAL if point.reduction is None else point.reduction
            fields = (point.element, reduction, point.step, point.accumulator, point.results)
            yield _cell(
                f"{name}, element {point.element}, step {point.step} of {reduction}", "step",
                [CLAIM, "uint256", "bytes32", _POINT, "bytes"],
                [claim, number, kernel_hash(kernel), fields, witness_bytes(witness)],
                ["uint256"], [evaluate_step(witness)],
            )  # fmt: skip


def points(element: Element, random: Random) -> Iterator[Point]:
    """The final expression of an element, and some step of each reduction."""
    yield Point(element.element, element.results)
    for k in range(len(element.results)):
        if length := element.length(k):
            step = random.randrange(length)
            yield Point(element.element, element.results, k, step, element.accumulators(k, {step})[step])


def _cell(
    name: str, function: str, types: list[str], values: list[Any], returned: list[str], answers: list[Any]
) -> dict[str, str]:
    data = keccak(f"{function}({','.join(types)})".encode())[:4] + encode(types, values)
    return {"name": name, "question": _hex(data), "answer": _hex(encode(returned, answers))}


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


if __name__ == "__main__":
    (Path(__file__).parents[2] / "vectors" / "dispute.json").write_text(text())
