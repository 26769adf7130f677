"""Traces and witnesses: each step of an honest account is consistent, and some step of every other is not."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from eigentensor import merkle, reference, runtime
from eigentensor.errors import LimitError, WitnessError
from eigentensor.numerics.floats import patterns
from eigentensor.program import Buffer, DType, Kind, Op, Role, expression
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.expression import Array, Axis, binary, counter, load, to_body
from eigentensor.reference import Values
from eigentensor.tracing import (
    Claim,
    Claimed,
    Compute,
    Element,
    Execution,
    Hashes,
    Opened,
    Point,
    check_call,
    check_witness,
    claim_of,
    collected,
    evaluate_step,
    outputs_of,
    prove_call,
    prove_outputs,
    retrace,
    witness_of,
)
from eigentensor.tracing.computed import WORTH, checkpoints, computed_results
from eigentensor.tracing.execution import REMEMBERED
from eigentensor.tracing.step import element_of, results_of, trips_of
from support.generated.programs import Example, examples, generate
from support.programs.worked_examples import index, layer, session

FEW = settings(max_examples=15)


def account_of(example: Example) -> Execution:
    """An account with all tensors."""
    calls = len(example.program.calls) * example.repeat
    return retrace(example.program, example.tensors, example.variables, example.repeat, keep=range(calls))


def points(element: Element, random: Random) -> Iterator[tuple[Point, int]]:
    """The final expression of an element and some step of each reduction, with what the account says of them."""
    results = element.results
    yield Point(element.element, results), element.stored
    for reduction, result in enumerate(results):
        length = element.length(reduction)
        if length:
            step = random.randrange(length)
            borders = element.accumulators(reduction, {0, step, step + 1, length})
            assert borders[length] == result
            yield Point(element.element, results, reduction, step, borders[step]), borders[step + 1]


def written(account: Execution, number: int) -> list[int]:
    program = account.program
    dtype = program.parameter(len(program.buffers) + number % len(program.calls)).dtype
    return [int(pattern) for pattern in patterns(dtype, account.kept[number])]


def judged(account: Execution, claim: Claim, element: Element, point: Point) -> int:
    check_call(prove_call(account, element.number), claim)
    witness = witness_of(account, element, point)
    check_witness(witness, claim)
    return evaluate_step(witness)


@FEW
@given(examples())
def test_every_step_of_an_honest_account_follows_from_its_witness(example: Example) -> None:
    account, random = account_of(example), Random(1)
    claim = claim_of(account)
    assert outputs_of(example.program, account.calls) == account.outputs
    assert collected(prove_outputs(account), claim) == account.outputs
    for number in range(len(account.calls)):
        values = written(account, number)
        for chosen in random.sample(range(len(values)), min(2, len(values))):
            element = Element(account, number, chosen)
            assert element.stored == values[chosen]
            for point, expected in points(element, random):
                assert judged(account, claim, element, point) == expected


def inconsistent(account: Execution, number: int) -> list[int]:
    """The elements of an executed call whose claimed patterns do not follow from the claimed operands."""
    claimed = written(account, number)
    return [e for e, pattern in enumerate(claimed) if Element(account, number, e).stored != pattern]


@pytest.mark.parametrize("example", [layer(), session()], ids=["layer", "session"])
def test_each_single_flipped_bit_of_each_tensor_of_a_trace_makes_its_element_inconsistent(example: Example) -> None:
    honest = account_of(example)
    assert not any(inconsistent(honest, number) for number in honest.kept)
    for number, tensor in honest.kept.items():
        for bit in range(8 * tensor.nbytes):
            lie = tensor.copy()
            lie.view(np.uint8)[bit // 8] ^= np.uint8(1 << bit % 8)
            account = replace(honest, kept={**honest.kept, number: lie})
            assert inconsistent(account, number) == [bit // (8 * tensor.itemsize)]


@pytest.mark.parametrize("seed", range(12))
def test_a_bit_flipped_anywhere_in_a_generated_trace_is_found_by_a_witness_of_the_liars_own_account(seed: int) -> None:
    example, random = generate(seed), Random(seed)
    honest = account_of(example)
    number = random.choice([n for n, tensor in honest.kept.items() if tensor.size])
    lie = honest.kept[number].copy()
    bit = random.randrange(8 * lie.nbytes)
    lie.view(np.uint8)[bit // 8] ^= np.uint8(1 << bit % 8)
    chosen = bit // (8 * lie.itemsize)
    dtype = example.program.parameter(len(example.program.buffers) + number % len(example.program.calls)).dtype
    calls = (*honest.calls[:number], merkle.array_root(dtype, lie), *honest.calls[number + 1 :])
    account = replace(honest, kept={**honest.kept, number: lie}, calls=calls)
    element, claim = Element(account, number, chosen), claim_of(account)
    point = Point(chosen, element.results)
    assert judged(account, claim, element, point) != written(account, number)[chosen]


def test_a_false_result_of_a_reduction_cannot_be_reached_by_true_steps() -> None:
    account = account_of(layer())
    element, claim = Element(account, 0, 5), claim_of(account)
    length = element.length(0)
    borders = element.accumulators(0, range(length + 1))
    false = (element.results[0] ^ 1,)
    for lied in range(1, length + 1):
        claimed = {step: pattern ^ (step >= lied) for step, pattern in borders.items()}
        wrong = [
            step
            for step in range(length)
            if judged(account, claim, element, Point(5, false, 0, step, claimed[step])) != claimed[step + 1]
        ]
        assert lied - 1 in wrong


def test_witnesses_reach_tensors_of_every_origin() -> None:
    example = session()
    account = account_of(example)
    claim, origins = claim_of(account), set()
    for number in account.kept:
        for chosen in range(len(account.kept[number])):
            element = Element(account, number, chosen)
            for point, expected in points(element, Random(chosen)):
                witness = witness_of(account, element, point)
                check_witness(witness, claim)
                assert evaluate_step(witness) == expected
                origins |= {(len(tensor.records), type(tensor.place).__name__) for tensor in witness.tensors}
    assert origins == {(0, "Opening"), (1, "Binding"), (1, "NoneType"), (2, "Opening")}


def test_a_claimed_value_has_one_pattern() -> None:
    account = account_of(layer())
    element = Element(account, 0, 5)
    witness = witness_of(account, element, Point(5, element.results))
    for pattern in (0x7FC00001, 0xFFC00000, 1 << 32, -1):
        with pytest.raises(WitnessError):
            evaluate_step(replace(witness, point=Point(5, (pattern,))))


def test_a_proof_of_a_call_with_anything_changed_is_refused() -> None:
    account = account_of(session())
    claim, number = claim_of(account), len(account.calls) - 2
    proof = prove_call(account, number)
    check_call(proof, claim)
    kernel, variable = proof.kernel, proof.variables[0]
    for changed in (
        replace(proof, number=0),
        replace(proof, number=len(account.calls)),
        replace(proof, kernel=replace(kernel, header=kernel.header[:-1])),
        replace(proof, kernel=replace(kernel, header=bytes((*kernel.header[:24], 9, *kernel.header[25:])))),
        replace(proof, kernel=replace(kernel, variables=(kernel.variables[0] + 1,))),
        replace(proof, kernel=replace(kernel, variables=(1 << 40,))),
        replace(proof, kernel=replace(kernel, variables=())),
        replace(proof, body=proof.call),
        replace(proof, variables=(replace(variable, place=replace_number(variable.place, 1)),)),
        replace(proof, variables=()),
        replace(proof, root=bytes(32)),
        replace(proof, place=replace_number(proof.place, 1)),
    ):
        with pytest.raises(WitnessError):
            check_call(changed, claim)


def replace_number(opening: merkle.Opening, by: int) -> merkle.Opening:
    return opening._replace(number=opening.number + by)


def test_a_witness_with_anything_changed_is_refused() -> None:
    account = account_of(session())
    claim = claim_of(account)
    element = Element(account, len(account.calls) - 2, 1)
    witness = witness_of(account, element, Point(1, element.results))
    check_witness(witness, claim)
    operand, tensor = witness.operands[0], witness.tensors[0]
    leaf = bytes((operand.leaf[0] ^ 1, *operand.leaf[1:]))
    for changed in (
        replace(witness, number=0),
        replace(witness, operands=(replace(operand, leaf=leaf), *witness.operands[1:])),
        replace(witness, operands=(replace(operand, leaf=leaf[1:]), *witness.operands[1:])),
        replace(witness, operands=(replace(operand, parameter=99), *witness.operands[1:])),
        replace(witness, tensors=(replace(tensor, root=bytes(32)), *witness.tensors[1:])),
        replace(witness, tensors=(replace(tensor, place=None), *witness.tensors[1:])),
        replace(witness, tensors=(replace(tensor, records=()), *witness.tensors[1:])),
        replace(witness, tensors=witness.tensors[1:]),
    ):
        with pytest.raises(WitnessError):
            check_witness(changed, claim)
    for incomplete in (
        replace(witness, operands=witness.operands[1:]),
        replace(witness, operands=(*witness.operands, operand)),
        replace(witness, kernel=replace(witness.kernel, variables=())),
        replace(witness, point=Point(99, element.results)),
        replace(witness, point=Point(1, (0,))),
        replace(witness, point=Point(1, element.results, 0)),
    ):
        with pytest.raises(WitnessError):
            evaluate_step(incomplete)


def test_a_proof_of_the_outputs_with_anything_changed_gives_no_root() -> None:
    account = account_of(session())
    claim, proof = claim_of(account), prove_outputs(account)
    for changed in (
        replace(proof, records=proof.records[:-1]),
        replace(proof, records=proof.records[::-1]),
        replace(proof, siblings=(*proof.siblings, bytes(32))),
        replace(proof, roots=proof.roots[::-1]),
        replace(proof, places=proof.places[::-1]),
        replace(proof, header=proof.header[::-1]),
    ):
        with pytest.raises(WitnessError):
            collected(changed, claim)


@pytest.mark.parametrize("count", [1, 2, 5, 31, 32, 33, 70])
def test_opened_nodes_lead_from_the_root_to_every_leaf_and_to_no_padding(count: int) -> None:
    hashes = Hashes(tuple(bytes([i + 1]) * 32 for i in range(count)))
    assert hashes.root == merkle.tree_root(hashes.leaves)
    for most in (1, 2, 5):
        level, nodes = hashes.depth, [hashes.root]
        while level > 0:
            levels = min(most, level)
            opened = [Opened(level - levels, levels, i, hashes.below(level, i, levels)) for i in range(len(nodes))]
            assert [below.root for below in opened] == nodes
            nodes = [node for below in opened for node in below.nodes]
            level -= levels
        assert nodes == [*hashes.leaves]
    for i in range(count):
        assert hashes.opening(i).root(hashes.leaves[i]) == hashes.root
    with pytest.raises(IndexError):
        hashes.node(0, 1 << hashes.depth)


@pytest.mark.parametrize(("count", "first"), [(70, 0), (70, 41), (70, 69), (64, 63), (65, 64), (33, 12)])
def test_a_trace_that_others_open_is_known_up_to_the_first_leaf_that_differs(count: int, first: int) -> None:
    own = Hashes(tuple(bytes([i + 1]) * 32 for i in range(count)))
    theirs = Hashes((*own.leaves[:first], *(bytes([255 - i]) * 32 for i in range(first, count))))
    level, index, opened = own.depth, 0, []
    while level > 0:
        levels = min(3, level)
        opened.append(Opened(level - levels, levels, index, theirs.below(level, index, levels)))
        level -= levels
        index = first >> level
    claimed = Claimed(own, tuple(opened))
    assert claimed.root == theirs.root
    for leaf in range(first + 1):
        assert claimed.node(0, leaf) == theirs.leaves[leaf]
        assert claimed.opening(leaf) == theirs.opening(leaf)


def test_only_the_tensors_that_are_asked_for_are_kept() -> None:
    example = session()
    account = retrace(example.program, example.tensors, example.variables, example.repeat)
    assert not account.kept
    last = len(account.calls) - 1
    with pytest.raises(WitnessError, match="not kept"):
        Element(account, last, 0)
    again = retrace(example.program, example.tensors, example.variables, example.repeat, keep=account.needs(last))
    assert again.kept.keys() == account.needs(last)
    results = reference.execute(example.program, example.tensors, example.variables, example.repeat)
    value = int(patterns(example.program.parameter(4).dtype, results.outputs["output"].reshape(-1))[0])
    assert Element(again, last, 0).stored == value


# Long reductions, left to a device


def in_time(account: Execution, compute: Compute) -> Iterator[tuple[int, int, int, dict[int, int]]]:
    """Elements with reductions that take steps: executed call, element, reduction, and accumulators as computed."""
    account = replace(account, compute=compute)
    for number, tensor in account.kept.items():
        for element in {0, tensor.size // 2, tensor.size - 1} if tensor.size else ():
            for reduction in range(account.body(number).reductions):
                trips = trips_of(account.body(number), account.bound(number), reduction)
                if all(trips):
                    yield number, element, reduction, checkpoints(account, number, element, reduction, trips)


@FEW
@given(examples())
def test_what_is_computed_of_reductions_has_the_bits_of_the_reference(example: Example) -> None:
    account = account_of(example)
    for number, element, reduction, accumulators in in_time(account, reference.execute):
        assert accumulators == Element(account, number, element).accumulators(reduction, accumulators.keys())
    for number, tensor in account.kept.items():
        elements = range(tensor.size // 3, tensor.size)
        if elements and account.body(number).reductions:
            computed = computed_results(replace(account, compute=reference.execute), number, elements)
            assert computed == results_of(account, number, elements)


def test_no_reduction_has_to_be_left_to_the_reference() -> None:
    nonempty = [bool(of) for seed in range(30) for *_, of in in_time(account_of(generate(seed)), reference.execute)]
    assert len(nonempty) > 50 and all(nonempty)


def long_sums() -> tuple[Execution, int]:
    """An account of four sums of products whose steps are worth a program, and their length."""
    length = WORTH // 2
    i, k = Axis(0, 4), Axis(1, length, is_reduce=True)
    x = load(
        Array("x", DType.FLOAT32, 4 * length), binary(Op.ADD, binary(Op.MUL, counter(i), index(length)), counter(k))
    )
    made = [("y", to_body(expression.reduction(Op.REDUCE_MULACC, (k,), x, x), (i,)))]
    buffers = {"x": Buffer(Role.INPUT, DType.FLOAT32, (4, length), "x")}
    program = assemble(made, buffers, {(Kind.OUTPUT, "y"): ("y", (4,))})
    values = np.random.default_rng(0).standard_normal((4, length)).astype(np.float32)
    return retrace(program, {"x": values}, keep={0}, execute=runtime.execute), length


@pytest.mark.slow
def test_the_reference_takes_few_steps_of_a_long_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever several games ask for in turn: the borders of all elements, then those between two of them."""
    account, length = long_sums()
    taken, accumulate = list[int](), reference.Evaluation.accumulate

    def counted(self: reference.Evaluation, *arguments: Any) -> Values:
        taken.append(1)
        return accumulate(self, *arguments)

    asked = [range(length // 64, length, length // 64), range(length // 2 + 64, length // 2 + length // 64, 64)]
    slow = {(3, after): Element(account, 0, 3).accumulators(0, after) for after in asked}
    monkeypatch.setattr(reference.Evaluation, "accumulate", counted)
    account = replace(account, compute=runtime.execute)
    for after in [*asked, *asked]:
        for element in range(4):
            accumulators = element_of(account, 0, element).accumulators(0, after)
            assert accumulators == slow.get((element, after), accumulators)
    assert 0 < len(taken) <= 4 * length // 64


def test_a_device_that_computes_something_else_is_not_believed() -> None:
    account, length = long_sums()
    right = Element(account, 0, 1)

    def wrong(*arguments: Any, **named: Any) -> Results:
        results = runtime.execute(*arguments, **named)
        return Results({name: array + np.float32(1) for name, array in results.outputs.items()}, {})

    element = Element(replace(account, compute=wrong), 0, 1)
    assert (element.results, element.stored) == (right.results, right.stored)
    assert element.accumulators(0, {1, length // 2}) == right.accumulators(0, {1, length // 2})


@pytest.mark.parametrize(
    "error", [LimitError("out of memory"), pytest.param(OSError(28, "No space left on device"), marks=pytest.mark.slow)]
)
def test_a_device_that_fails_does_not_stop_a_game(error: Exception) -> None:
    account, _ = long_sums()

    def fails(*arguments: Any, **named: Any) -> Results:
        raise error

    leaf = range(account.kept[0].size)
    assert results_of(replace(account, compute=fails), 0, leaf) == results_of(account, 0, leaf)


def test_elements_that_several_games_are_about_are_evaluated_once() -> None:
    account = account_of(layer())
    first = [element_of(account, 0, element) for element in range(8)]
    assert all(element_of(account, 0, element) is known for element, known in enumerate(first))
    leaf = range(account.kept[0].size)
    assert results_of(account, 0, leaf) is results_of(account, 0, leaf)


def test_what_is_remembered_is_bounded() -> None:
    account = account_of(layer())
    first = element_of(account, 0, 0)
    for number in range(REMEMBERED):
        account.remembered(number, lambda: 0)
    assert element_of(account, 0, 0) is not first
