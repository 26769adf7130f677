"""What is simplified away changes no bit."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, node, remade, walk
from eigentensor.graph.simplify import is_moved, simplified
from eigentensor.program.binding import Results
from eigentensor.program.model import Role
from eigentensor.program.ops import DType, Op
from eigentensor.reference import execute as reference
from eigentensor.runtime.compiled import execute as compiled
from support.programs import random_graphs

RANDOM = st.randoms(use_true_random=False)
PLAIN = settings(derandomize=True, suppress_health_check=list(HealthCheck))


def check(random: Random, execute: Callable[..., Results], change: Callable[[Graph], Graph] = simplified) -> None:
    graph, inputs = random_graphs.graph(random)
    results = []
    for of in (graph, change(graph)):
        program = lower(of, fingerprint=False).program
        arguments = {name: inputs[name] for name in program.named(Role.INPUT)}
        results.append(execute(program, arguments).outputs)
    for name, before in results[0].items():
        after = results[1][name]
        assert (before.dtype, before.shape) == (after.dtype, after.shape)
        assert before.tobytes() == after.tobytes(), (graph.outputs[name], before, after)


@settings(PLAIN, max_examples=50)
@given(RANDOM)
def test_a_simplified_graph_gives_the_same_bits(random: Random) -> None:
    check(random, reference)


@settings(PLAIN, max_examples=2)
@given(RANDOM)
def test_a_simplified_graph_gives_the_same_bits_when_compiled(random: Random) -> None:
    check(random, compiled)


@pytest.mark.slow
def test_thousands_of_simplified_graphs_give_the_same_bits() -> None:
    for seed in range(10_000):
        check(Random(seed), reference)
    for seed in range(200):
        check(Random(seed), compiled)


def test_what_is_simple_stays_and_simplifying_twice_is_once() -> None:
    for seed in range(100):
        graph, _ = random_graphs.graph(Random(seed))
        once = simplified(graph)
        assert simplified(once).roots == once.roots
        assert len(list(walk(*once.roots))) <= len(list(walk(*graph.roots))) + 2 * len(graph.roots)
        assert np.all([n.shape == m.shape for n, m in zip(graph.roots, once.roots, strict=True)])


def stored_everywhere(graph: Graph) -> Graph:
    """The graph with every result of an operation stored, but products that a sum accumulates."""
    terms = {n for n in walk(*graph.roots) if n.op is Op.REDUCE_ADD and n.dtype is DType.FLOAT32}
    kept = {n for total in terms for n in chain(total.src[0])}
    done: dict[Node, Node] = {}
    for n in walk(*graph.roots):
        again = remade(n, tuple(done[s] for s in n.src))
        done[n] = again if n in kept or not n.src else node(Form.CONTIGUOUS, again)
    return Graph({name: done[n] for name, n in graph.outputs.items()})


def chain(term: Node) -> list[Node]:
    """A term, and what it only moves."""
    terms = [term]
    while is_moved(terms[-1]) or terms[-1].op in (Form.PAD, Form.GATHER):
        terms.append(terms[-1].src[0])
    return terms


def test_what_is_computed_together_has_the_bits_of_what_is_stored_one_by_one() -> None:
    for seed in range(150):
        check(Random(seed), reference, stored_everywhere)
