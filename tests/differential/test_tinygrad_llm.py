"""tinygrad's own language model, captured as it is: caches and random numbers are states."""

from typing import Any

import numpy as np
import pytest
from tinygrad import Context, Tensor, UOp

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph
from support.programs.tinygrad_llm import KINDS, POSITIONS, model

FIRST, WARM = 3, np.array([0.7], np.float32)


def by_tinygrad(of: Any) -> list[int]:
    """The tokens that it writes by `Transformer.__call__`, as `generate` does it, through its JIT."""
    token, tokens, variable = FIRST, [], UOp.variable("start_pos", 0, POSITIONS - 1)
    for at in range(POSITIONS):
        token = int(of(Tensor([[token]], dtype="int32"), variable.bind(at), Tensor(WARM)).item())
        tokens.append(token)
    return tokens


def captured(of: Any) -> tuple[set[str], list[int]]:
    """The names of the states of its program, and the tokens that this writes."""
    examples = {"tokens": np.zeros((1, 1), np.int32), "temperature": WARM}
    graph = capture(of.forward, examples, of, variables={"start_pos": (0, POSITIONS - 1)})
    program, token, tokens = (
        CompiledGraph(graph.program, {**graph.weights, **graph.states}, keep_states=True),
        FIRST,
        [],
    )
    for at in range(POSITIONS):
        inputs = {"tokens": np.array([[token]], np.int32), "temperature": WARM}
        token = int(program.run(inputs, {"start_pos": at}).outputs["output"].item())
        tokens.append(token)
    return set(graph.states), tokens


def held(kind: str) -> set[str]:
    with Context(DEV="CPU"):
        Tensor.manual_seed(1)
        expected = by_tinygrad(model(kind))
        Tensor.manual_seed(1)
        states, tokens = captured(model(kind))
    assert tokens == expected
    return states


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_tokens_are_tinygrads(kind: str) -> None:
    states = held(kind)
    assert "random.counter" in states and any(name.startswith("blk.1.cache_k") for name in states)
