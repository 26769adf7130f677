"""Writes referee.json: steps of generated programs and captured graphs, one a line, with what they give.

The answers are those of the second reading (`testing.interpreter`), which shares no code with the reference.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from eigentensor import merkle, reference
from eigentensor.numerics import exact
from eigentensor.numerics.floats import patterns
from eigentensor.program.binding import bind, iteration_values
from eigentensor.program.codec import encode, split
from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Program, Role
from eigentensor.program.ops import DType, Op
from eigentensor.program.structure import cone, extents_of, reductions
from support.generated.edges import edges
from support.generated.programs import generate
from support.oracles.interpreter import Place
from support.programs.captured import graphs

SEEDS = range(24)
GRAPHS = (
    "argmax", "bfloat16", "decoder step", "embedding", "gelu mlp", "layernorm", "long sum", "softmax", "wide integers",
)  # fmt: skip
FINAL = (1 << 256) - 1
WORK = 20_000  #: evaluations of an element's reductions that are worth it
LONGEST = 14_000  #: bytes of a line


@dataclass(frozen=True)
class Run:
    """The first iteration of a program: the flat tensors of all buffers, and the records of its buffers."""

    name: str
    program: Program
    buffers: Sequence[np.ndarray[Any, Any]]
    variables: tuple[int, ...]

    def record(self, kind: str, number: int) -> bytes:
        before = len(self.program.variables) + (len(self.program.buffers) if kind == "body" else 0)
        return split(encode(self.program))[1][before + number]

    def parameters(self, call: int) -> list[np.ndarray[Any, Any]]:
        return [self.buffers[buffer] for buffer in self.program.calls[call].arguments]


def text() -> str:
    lines = [json.dumps(cell, separators=(",", ":")) for cell in cells()]
    lines = [line for line in lines if len(line) < LONGEST]
    return '{"cells": [\n' + ",\n".join(lines) + "\n]}\n"


def cells() -> Iterator[dict[str, object]]:
    """For bodies in turn: the final expression of an element, and a step of each of its reductions."""
    random = Random(3)
    for run in runs():
        seen: set[int] = set()
        for number, call in enumerate(run.program.calls):
            body = run.program.bodies[call.body]
            if call.body in seen or not body.parameters[0].elements:
                continue
            seen.add(call.body)
            yield from _of_call(run, number, body, random)


def runs() -> Iterator[Run]:
    for seed in SEEDS:
        example = generate(seed)
        yield _run(f"generated {seed}", example.program, example.tensors, example.variables)
    random = np.random.default_rng(9)
    for name, graph in graphs().items():
        if name in GRAPHS:
            captured = graph.captured()
            tensors = {  # numbers that are exact: weights drawn by somebody's logarithm may differ in a bit
                key: (random.integers(-512, 512, np.shape(value)) / 64).astype(np.float32)
                if np.asarray(value).dtype == np.float32
                else value
                for key, value in graph.bound(captured).items()
            }
            yield _run(name, captured.program, tensors, {key: bounds[0] for key, bounds in graph.variables.items()})


def _run(name: str, program: Program, tensors: dict[str, Any], variables: dict[str, int]) -> Run:
    buffers = bind(program, tensors, variables)

    def observe(number: int, result: np.ndarray[Any, Any]) -> None:
        buffers.append(result.copy())

    reference.execute(program, tensors, variables, observe=observe)
    return Run(name, program, buffers, iteration_values(program, variables, 0))


def _of_call(run: Run, call: int, body: Body, random: Random) -> Iterator[dict[str, object]]:
    element = random.randrange(body.parameters[0].elements)
    arrays = [
        patterns(p.dtype, array).tolist() for p, array in zip(body.parameters[1:], run.parameters(call), strict=True)
    ]
    variables = [run.variables[i] for i in run.program.calls[call].variables]
    counters = np.unravel_index(element, body.output_ranges or (1,))
    place = Place(body, [[], *arrays], variables).at({n: int(at) for n, at in enumerate(counters)})
    if body_cost(body).evaluations > WORK * body.parameters[0].elements:
        return
    numbers = reductions(body)
    results = [place.value(number) for number in numbers]
    last = len(body.instructions) - 1
    shared = {
        "name": f"{run.name}, call {call}, element {element}",
        "record": _hex(run.record("body", run.program.calls[call].body)),
        "variables": variables,
        "element": element,
        "results": list(map(hex, results)),
    }
    dtype = body.parameters[0].dtype
    final = hex(exact.bitcast(dtype, dtype, place.value(last)))
    yield shared | _witness(run, call, body, place, [last]) | _point(body, FINAL, 0, 0, final)
    for reduction, number in enumerate(numbers):
        extents = [place.value(extent) for extent in extents_of(body, reduction)]
        if all(extents):
            step = random.randrange(int(np.prod(extents)))
            loops = [n for n, r in enumerate(body.reduce_ranges, len(body.output_ranges)) if r.reduction == reduction]
            at = np.unravel_index(step, extents)
            inside = place.at({loop: int(counter) for loop, counter in zip(loops, at, strict=True)})
            op, of, *_ = instruction = body.instructions[number]
            before = _canonical(of, random.choice(edges(of)))
            terms = [inside.value(value) for value in instruction.values]
            operands = (*terms, before) if op is Op.REDUCE_MULACC else (before, *terms)
            after = exact.evaluate(op.name.removeprefix("REDUCE_"), of, *operands)
            witness = _witness(run, call, body, inside, instruction.values)
            yield shared | witness | _point(body, reduction, step, before, hex(after))


def _point(body: Body, reduction: int, step: int, accumulator: int, expected: str) -> dict[str, object]:
    """`gas` is what the verdict may cost."""
    costs = {FINAL if cost.reduction is None else cost.reduction: cost.gas for cost in body_cost(body).steps}
    named = {"reduction": hex(reduction), "step": step, "accumulator": hex(accumulator)}
    return named | {"expected": expected, "gas": costs[reduction]}


def _witness(run: Run, call: int, body: Body, place: Place, roots: Sequence[int]) -> dict[str, object]:
    """Openings in the order of the loads; zeros at the end of a leaf are left out."""
    arguments = list(zip(run.program.calls[call].arguments, body.parameters[1:], run.parameters(call), strict=True))
    constant = [
        number < len(run.program.buffers) and run.program.buffers[number].role is Role.CONSTANT
        for number, _, _ in arguments
    ]
    leaves, paths = [], []
    for number in cone(body, roots):
        instruction = body.instructions[number]
        if instruction.op is not Op.LOAD or constant[instruction.a - 1]:
            continue
        if len(instruction.values) == 1 or place.value(instruction.c):
            _, parameter, array = arguments[instruction.a - 1]
            data = merkle.little_endian(parameter.dtype, array)
            leaf, opening = merkle.open_element(parameter.dtype, data, place.value(instruction.b))
            leaves.append(_hex(leaf.rstrip(b"\0")))
            paths.append(_hex(b"".join(opening.path)))
    return {
        "roots": [_hex(merkle.array_root(parameter.dtype, array)) for _, parameter, array in arguments],
        "constants": [
            _hex(run.record("buffer", number) if is_constant else b"")
            for (number, _, _), is_constant in zip(arguments, constant, strict=True)
        ],
        "leaves": leaves,
        "paths": paths,
    }


def _canonical(dtype: DType, pattern: int) -> int:
    return exact.bitcast(dtype, dtype, pattern)


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


if __name__ == "__main__":
    (Path(__file__).parents[2] / "vectors" / "referee.json").write_text(text())
