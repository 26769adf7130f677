"""The language model of the examples writes in paid tasks what it writes here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import language_model
from eigentensor.chain import to_wei
from eigentensor.errors import BindingError
from eigentensor_client import byte_pairs
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_client.writing import Sampling, Text
from eigentensor_local.devnet import Party
from language.decoder import Shape, drawn
from language.writing import writing

pytestmark = pytest.mark.slow

TERMS = Terms(to_wei("0.05"), exec=60, accept_within=100)


def test_sixty_four_tokens_are_one_task_that_is_checked_and_the_next_prompt_goes_on(
    client: Client, operators: list[Party], capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = byte_pairs.trained("a program, a task, a trace\n", 270)
    shape = Shape(2, 24, 4, 2, 6, 32, pairs.size, context=150, window=5, full_every=2)
    graph, sampling = writing(drawn(shape)), Sampling(0.9, least=0.01, seed=4)
    session = client.session(graph.program, dict(graph.weights), dict(graph.states), TERMS)
    paid, here = (Text(pairs, shape.context, e) for e in (language_model.paid(session), language_model.here(graph)))
    for prompt in ("a program", " a trace"):
        expected = here.write(prompt, 64, sampling)  # first: operators find the kernels compiled
        assert paid.write(prompt, 64, sampling) == expected
        assert expected.startswith(prompt)
        assert "checked(1)" in capsys.readouterr().err
    assert session.step == 2
    with pytest.raises(BindingError, match="more than the context"):
        paid.write("a task", 64, sampling)


def test_the_example_learns_and_writes_the_same_here_and_in_paid_tasks(operators: list[Party], tmp_path: Path) -> None:
    def example(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(Path(language_model.__file__)), *words]
        return subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=1500)

    assert "`python" in example("write", "A program").stderr
    assert not example("train", "--steps", "60").returncode
    prompts = ["write", "A program", " An operator", "--temperature", "0.7", "--seed", "3"]
    here, paid = example(*prompts), example(*prompts, "--paid")
    assert (paid.returncode, paid.stdout) == (0, here.stdout), paid.stderr
    assert here.stdout.startswith("A program")
    assert paid.stderr.count("checked(1)") == 2
    captured = subprocess.run(
        [sys.executable, "-m", "eigentensor_client", "program", "capture", language_model.__file__],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert not captured.returncode, captured.stderr
    assert {f"language_model.{kind}" for kind in ("program", "weights.safetensors", "states.safetensors")} <= {
        path.name for path in tmp_path.iterdir()
    }
