"""The programs that three lines made remote, on a network: each call is a paid, checked task."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from tinygrad import Context

from eigentensor_client.client import Client
from eigentensor_client.function import function
from eigentensor_local.devnet import Party

EXAMPLES = Path(__file__).parents[2] / "client" / "examples"
CALLS = {"bert_encoder": 1, "digits_cnn": 1, "gpt2_decoder": 4, "heat_equation": 3, "mlp_training": 4}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_remote_program_prints_what_the_plain_one_prints(
    name: str,
    client: Client,
    operators: list[Party],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered = function.terms  # the programs do not say how busy this machine may be
    monkeypatch.setattr(
        function, "terms", lambda self, client: replace(offered(self, client), exec=60, accept_within=200)
    )
    before = {task.uuid for task in client.tasks()}
    printed = []
    with Context(DEV="CPU"):
        for kind in ("plain", "remote"):
            runpy.run_path(str(EXAMPLES / kind / f"{name}.py"), run_name="__main__")
            printed.append(capsys.readouterr().out)
    assert printed[0] and printed[0] == printed[1]
    paid = [task for task in client.tasks() if task.uuid not in before]
    assert len(paid) == CALLS[name]  # and on a slow machine a second verifier may not have waited for the first
    assert {task.checked for task in paid} <= {"checked(1)", "checked(2)"}
