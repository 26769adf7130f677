"""The game, in Python alone: whoever is right wins it, whatever the other side does."""

from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.dispute import (
    Collect,
    Keep,
    Knowledge,
    Move,
    Outcome,
    Phase,
    PickCall,
    PickNode,
    Position,
    Publish,
    Published,
    Reason,
    ShowLeaf,
    ShowOutputs,
    Side,
    apply,
    deadline_of,
    next_move,
    public_tensors,
    refuse,
    strategy,
    trees,
)
from eigentensor.dispute.results import leaves_of
from eigentensor.errors import IllegalMove
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Buffer, Kind, Op, Role
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.expression import Array, Axis, binary, const, counter, load, reduction, to_body
from eigentensor.tracing import Execution, Flat, outputs_of, retrace
from support.generated.programs import Example, examples, generate
from support.programs.captured import NAMES, graphs
from support.programs.worked_examples import index, session
from support.stories.games import Played, account_of, claimed, fabulist, honest, informed, play, reckless
from support.stories.liars import Fault, Liar, some_fault

FEW = settings(max_examples=25)
VERDICT, DETERMINED = Outcome(True, Reason.VERDICT), Outcome(True, Reason.DETERMINED)


def against(true: Execution, liar: Liar) -> Played:
    return play(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))


def captured(name: str) -> Example:
    graph = graphs()[name]
    program = graph.captured().program
    variables = {v.name: v.minimum + 1 for v in program.variables}
    return Example(program, graph.bound(graph.captured()), variables, 1)


@FEW
@given(examples())
def test_an_honest_challenger_has_nothing_to_object_to_a_right_result(example: Example) -> None:
    true = account_of(example)
    played = play(true, true.outputs, honest(Side.EXECUTOR), honest(Side.CHALLENGER))
    assert (played.outcome, played.last.phase) == (None, Phase.CALL)


@FEW
@given(examples(), st.integers(0, 1 << 32))
def test_a_wrong_bit_anywhere_is_convicted(example: Example, seed: int) -> None:
    true, random = account_of(example), Random(seed)
    if any(tensor.size for tensor in true.kept.values()):
        liar = Liar(true, example.tensors, some_fault(true, random))
        assert not liar.changed or against(true, liar).outcome == VERDICT


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_bit_anywhere_in_what_people_bring_is_convicted(name: str) -> None:
    example, random = captured(name), Random(name)
    true = account_of(example)
    liars = (Liar(true, example.tensors, some_fault(true, random)) for _ in range(100))
    wrong = islice((liar for liar in liars if liar.changed), 3)
    assert [against(true, liar).outcome for liar in wrong] == [VERDICT] * 3


@FEW
@given(examples(), st.integers(0, 1 << 32))
def test_a_right_result_is_acquitted_whatever_is_objected_to(example: Example, seed: int) -> None:
    true = account_of(example)
    played = play(true, true.outputs, honest(Side.EXECUTOR), reckless(Random(seed)))
    assert played.outcome is None or not played.outcome.executor_lost
    assert played.last.phase.side is Side.CHALLENGER


@FEW
@given(examples(), st.integers(0, 1 << 32))
def test_a_wrong_result_is_convicted_whatever_its_executor_says(example: Example, seed: int) -> None:  # INVARIANT 27
    assert_convicted(example, Random(seed))


def assert_convicted(example: Example, random: Random) -> None:
    true = account_of(example)
    story, player = fabulist(true, random)
    played = play(true, story.outputs, player, honest(Side.CHALLENGER))
    if (story.calls, story.outputs) == (true.calls, true.outputs):
        assert played.outcome is None and played.last.phase is Phase.CALL
    else:
        assert played.outcome is not None and played.outcome.executor_lost


@pytest.mark.parametrize("name", ["decoder step", "layernorm", "long sum"])
def test_a_wrong_result_of_what_people_bring_is_convicted_whatever_is_said(name: str) -> None:
    example = captured(name)
    for seed in range(12):
        assert_convicted(example, Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_wrong_bits_in_what_people_bring_are_convicted(name: str) -> None:
    example, random = captured(name), Random(name)
    true, wrong = account_of(example), 0
    while wrong < 560:  # of 18 graphs: more than ten thousand
        liar = Liar(true, example.tensors, some_fault(true, random))
        if liar.changed:
            wrong += 1
            assert against(true, liar).outcome == VERDICT


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves open one level or two, so that the traces and tensors of small programs take several."""
    for name, levels in (("LEAST", 1), ("MOST", 2), ("COMFORTABLE", 2)):
        monkeypatch.setattr(trees, name, levels)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 100))])
def test_traces_and_tensors_that_take_many_moves_are_judged_alike(seed: int) -> None:  # INVARIANTS 26, 27
    example, random = generate(seed), Random(seed)
    true = account_of(example)
    assert_convicted(example, random)
    played = play(true, true.outputs, honest(Side.EXECUTOR), reckless(random))
    assert played.outcome is None or not played.outcome.executor_lost
    assert played.last.phase.side is Side.CHALLENGER


def counting(repeat: int) -> Example:
    """Three calls in each iteration: next = 3 · state + 1, twice = next + next, output = next · twice."""
    at, state, following = Axis(0, 2), Array("state", DType.INT32, 2), Array("next", DType.INT32, 2)
    own, twice = load(following, counter(at)), Array("twice", DType.INT32, 2)
    added = binary(Op.ADD, binary(Op.MUL, load(state, counter(at)), const(DType.INT32, 3)), const(DType.INT32, 1))
    calls = [
        ("next", to_body(added, (at,))),
        ("twice", to_body(binary(Op.ADD, own, own), (at,))),
        ("output", to_body(binary(Op.MUL, own, load(twice, counter(at))), (at,))),
    ]
    program = assemble(
        calls,
        {"state": Buffer(Role.STATE, DType.INT32, (2,), "state")},
        {(Kind.OUTPUT, "output"): ("output", (2,)), (Kind.STATE, "state"): ("next", (2,))},
        max_repeat=repeat,
    )
    return Example(program, {"state": np.array([5, 7], np.int32)}, {}, repeat)


def test_a_wrong_call_among_thousands_is_found_below_three_openings_of_the_trace() -> None:
    example = counting(1_500)
    true = account_of(example)
    knowledge = replace(true, kept={})
    assert refuse(example.program, example.repeat) is None
    for number in (0, 1, 2_047, 2_048, 3_333, 4_499):
        kept = true.kept[number].copy()
        kept[1] ^= 4
        root = Flat(DType.INT32, kept).root
        calls = (*true.calls[:number], root, *true.calls[number + 1 :])
        lie = replace(true, calls=calls, kept={**true.kept, number: kept}, outputs=outputs_of(example.program, calls))

        def lying(
            position: Position, published: Published, known: Knowledge, lie: Execution = lie
        ) -> Move | Keep | None:
            return next_move(Side.EXECUTOR, position, published, replace(known, account=lie))

        played = play(true, lie.outputs, lying, honest(Side.CHALLENGER))
        assert played.outcome == VERDICT
        assert [move.function for move in played.moves[:4]] == ["publish", "pickNode", "descend", "pickCall"]
        assert played.last.number == number
        poor = Knowledge(claimed(true, lie.outputs), (), knowledge)
        assert isinstance(next_move(Side.CHALLENGER, played.positions[1], first_publication(played), poor), PickNode)
        for tensor, first in ((kept, ["publish", "judgeCall"]), (kept ^ 1, ["publish", "pickNode"])):
            with_it = play(true, lie.outputs, lying, informed({number: Flat(DType.INT32, tensor)}))
            assert with_it.outcome == VERDICT
            assert [move.function for move in with_it.moves[:2]] == first


def first_publication(played: Played) -> Published:
    """What was published with the first move of a game."""
    (publish, *_), (_, position, *_) = played.moves, played.positions
    assert isinstance(publish, Publish)
    return Published().after(position, publish.published())


def test_every_kind_of_step_is_acquitted() -> None:
    true, seen = account_of(captured("layernorm")), set()
    for seed in range(90):
        played = play(true, true.outputs, honest(Side.EXECUTOR), reckless(Random(seed)))
        assert played.outcome is not None and not played.outcome.executor_lost
        seen.add(played.moves[-1].function)
    assert seen == {"collect", "judgeResult", "judgeCall", "judgeFinal", "verdict", "judgeSpan"}


def test_right_calls_with_a_wrong_outputs_root_are_convicted_by_collecting() -> None:
    example = session()
    true = account_of(example)
    liar = replace(true, outputs=b"\7" * 32)

    def lying(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        return next_move(Side.EXECUTOR, position, published, replace(knowledge, account=liar))

    played = play(true, liar.outputs, lying, honest(Side.CHALLENGER))
    assert played.outcome == Outcome(True, Reason.COLLECT) and isinstance(played.moves[-1], Collect)


@pytest.mark.parametrize(
    ("outputs", "states"),
    [
        ("w", "s"), ("o", "w"), ("oo", "s"), ("o", "ss"), ("", "os"), ("os", ""), ("", ""), ("o", ""), ("", "s"),
        ("so", ""),
    ],
)  # fmt: skip
def test_an_outputs_root_of_other_results_is_convicted_result_by_result(
    outputs: str, states: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # INVARIANT 27
    monkeypatch.setattr(strategy, "WITNESS", 0)
    true = account_of(session())
    (output,), (state,) = leaves_of(true)
    leaves = {"o": output, "s": state, "w": b"\7" * 32}
    shown = [tuple(leaves[key] for key in keys) for keys in (outputs, states)]
    root = merkle.outputs_root(*(merkle.bindings_root_of(len(s), merkle.tree_root(s)) for s in shown))

    def lying(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        if position.phase is Phase.OUTPUTS:
            claim = replace(knowledge.claim, trace=published.nodes[0].root)
            return ShowOutputs(claim, *shown)
        return next_move(Side.EXECUTOR, position, published, knowledge)

    played = play(true, root, lying, honest(Side.CHALLENGER))
    assert played.outcome == Outcome(True, Reason.COLLECT)
    assert [move.function for move in played.moves] == ["publish", "askOutputs", "showOutputs", "judgeResult"]


def test_an_outputs_root_of_nothing_cannot_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "WITNESS", 0)
    true = account_of(session())
    played = play(true, b"\7" * 32, honest(Side.EXECUTOR), honest(Side.CHALLENGER))
    assert (played.outcome, played.last.phase) == (None, Phase.OUTPUTS)


def test_right_outputs_with_a_wrong_intermediate_are_convicted() -> None:  # INVARIANT 36
    example = captured("gelu mlp")
    true = account_of(example)
    liar = Liar(true, example.tensors, Fault(0, 3, 9))
    lie = replace(liar.account, outputs=true.outputs)

    def lying(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        return next_move(Side.EXECUTOR, position, published, replace(knowledge, account=lie))

    assert play(true, true.outputs, lying, honest(Side.CHALLENGER)).outcome == VERDICT


def total_of(op: Op, dtype: DType, elements: int, steps: int) -> Example:
    """One kernel, INVARIANT 35: each of some elements is reduced over so many steps of it."""
    i, k = Axis(0, elements), Axis(1, steps, True)
    array = Array("given", dtype, elements)
    body = to_body(reduction(op, (k,), load(array, counter(i)), extents=(index(steps),)), (i,))
    program = assemble(
        [("total", body)],
        {"given": Buffer(Role.INPUT, dtype, (elements,), "given")},
        {(Kind.OUTPUT, "total"): ("total", (elements,))},
    )
    return Example(program, {"given": np.arange(elements).astype(STORAGE[dtype])}, {}, 1)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT64, DType.UINT64, DType.FLOAT16, DType.FLOAT32])
@pytest.mark.parametrize("steps", [2, 63, 64, 65, 300])
def test_a_wrong_accumulator_is_convicted_after_any_number_of_steps(dtype: DType, steps: int) -> None:
    example = total_of(Op.REDUCE_ADD, dtype, 3, steps)
    true, random = account_of(example), Random(steps)
    for step in {0, steps - 1, *(random.randrange(steps) for _ in range(3))}:
        liar = Liar(true, example.tensors, Fault(0, 1, 8 * dtype.size - 1, 0, step))
        assert liar.changed and against(true, liar).outcome == VERDICT


def test_a_wrong_accumulator_of_a_single_step_is_convicted_without_borders() -> None:
    example = replace(session(), variables={"pos": 0}, repeat=1)
    true = account_of(example)
    played = against(true, Liar(true, example.tensors, Fault(1, 0, 5, 0, 0)))
    assert played.outcome == VERDICT
    assert [move.function for move in played.moves][-2:] == ["pickReduction", "verdict"]


def false_account(true: Execution, change: Fault | None, tensor: bytes | None = None) -> Execution:
    """An account that has another root of the first call."""
    flat = true.kept[0].copy()
    if change is not None:
        flat.view("u1")[change.bit // 8] ^= np.uint8(1 << change.bit % 8)
    root = tensor or Flat(true.program.parameter(len(true.program.buffers)).dtype, flat).root
    return replace(true, calls=(root, *true.calls[1:]), kept={**true.kept, 0: flat}, outputs=b"\7" * 32)


def test_a_false_result_of_no_steps_is_convicted_without_a_witness() -> None:  # INVARIANT 35
    true = account_of(total_of(Op.REDUCE_MIN, DType.INT32, 2, 0))
    lie = false_account(true, Fault(0, 0, 4))

    def lying(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        move = next_move(Side.EXECUTOR, position, published, replace(knowledge, account=lie))
        if position.phase is Phase.LEAF:
            assert isinstance(move, ShowLeaf)
            return replace(move, results=lie.kept[0].tobytes())
        return move

    assert play(true, lie.outputs, lying, honest(Side.CHALLENGER)).outcome == DETERMINED


def test_a_false_root_of_nothing_is_convicted_at_once() -> None:  # INVARIANT 35
    true = account_of(total_of(Op.REDUCE_ADD, DType.INT32, 0, 2))
    lie = false_account(true, None, b"\5" * 32)

    def lying(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        return next_move(Side.EXECUTOR, position, published, replace(knowledge, account=lie))

    played = play(true, lie.outputs, lying, honest(Side.CHALLENGER))
    assert played.outcome == DETERMINED and isinstance(played.moves[-1], PickCall)


def test_a_challenger_that_has_the_public_tensor_picks_the_leaf_at_once() -> None:
    example = captured("layernorm")
    true = account_of(example)
    number = len(true.calls) - 1
    liar = Liar(true, example.tensors, Fault(number, 1900, 3))
    (name,) = example.program.outputs
    public = public_tensors(example.program, 1, Results({name: liar.account.kept[number].reshape(5, 384)}, {}))
    assert public[number].root == liar.account.calls[number]
    played = play(true, liar.account.outputs, liar.next_move, informed(public))
    assert played.outcome == VERDICT
    assert [move.function for move in played.moves] == ["publish", "judgeCall"]
    assert len(against(true, liar).moves) == 6


def test_what_a_side_lacks_is_traced_again() -> None:
    example = captured("digits")
    true = account_of(example)
    poor = retrace(example.program, example.tensors)
    liar = Liar(true, example.tensors, Fault(3, 1, 3))
    knowledge = Knowledge(claimed(true, liar.account.outputs), (), poor)
    played = against(true, liar)
    for position in played.positions:
        if position.phase not in (Phase.PUBLISH, Phase.CALL):
            keep = next_move(position.phase.side, position, Published(), knowledge)
            assert keep == Keep(true.needs(3) | {3})


@pytest.mark.parametrize("seed", range(10))
def test_the_moves_of_a_game_are_refused_in_every_other_phase_and_after_the_clock(seed: int) -> None:
    example, random = generate(seed), Random(seed)
    true = account_of(example)
    liar = Liar(true, example.tensors, some_fault(true, random))
    played = against(true, liar)
    for position, move in zip(played.positions, played.moves, strict=False):
        assert deadline_of(position) == position.since + position.left - 1
        with pytest.raises(IllegalMove, match="clock"):
            apply(position, move, deadline_of(position) + 1)
        for other in played.positions:
            if other.phase is not position.phase:
                with pytest.raises(IllegalMove, match="phase"):
                    apply(other, move, other.since)
