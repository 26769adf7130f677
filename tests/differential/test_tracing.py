"""Steps of what people bring, judged from witnesses alone, against the reference."""

from random import Random

import pytest

from eigentensor.numerics.floats import patterns
from eigentensor.tracing import Element, Point, check_witness, claim_of, evaluate_step, outputs_of, retrace, witness_of
from support.programs.captured import graphs

GRAPHS = ("digits", "softmax", "embedding", "decoder step", "matmul of half", "cross-entropy with its gradient")


@pytest.mark.parametrize("name", GRAPHS)
def test_steps_of_captured_graphs_follow_from_their_witnesses(name: str) -> None:
    graph, random = graphs()[name], Random(name)
    captured = graph.captured()
    program = captured.program
    variables = {v.name: v.minimum + 1 for v in program.variables}
    calls = range(len(program.calls))
    account = retrace(program, graph.bound(captured), variables, keep=calls)
    claim = claim_of(account)
    assert outputs_of(program, account.calls) == account.outputs
    for number in random.sample(calls, min(8, len(calls))):
        written = patterns(program.parameter(len(program.buffers) + number).dtype, account.kept[number])
        chosen = random.randrange(len(written))
        element = Element(account, number, chosen)
        assert element.stored == written[chosen]
        expected = {Point(chosen, element.results): element.stored}
        for reduction in range(len(element.results)):
            step = random.randrange(element.length(reduction))
            borders = element.accumulators(reduction, {step, step + 1})
            expected[Point(chosen, element.results, reduction, step, borders[step])] = borders[step + 1]
        for point, value in expected.items():
            witness = witness_of(account, element, point)
            check_witness(witness, claim)
            assert evaluate_step(witness) == value
