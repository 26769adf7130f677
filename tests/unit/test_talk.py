"""Hints name the command as it can be called, decided at one place."""

import pytest

from eigentensor import talk
from eigentensor.errors import EigenTensorError


@pytest.mark.parametrize(
    ("on_path", "script", "python", "called"),
    [
        ("/usr/bin/eigentensor", ".venv/bin/eigentensor", ".venv/bin/python", "eigentensor"),
        (None, ".venv/bin/eigentensor", ".venv/bin/python", ".venv/bin/eigentensor"),
        (None, "/lib/eigentensor_client/__main__.py", "python3", "python3 -m eigentensor_client"),
        (None, "my.py", "", "python -m eigentensor_client"),
        (None, "my own/eigentensor", "python", "'my own/eigentensor'"),
    ],
)
def test_the_command_is_named_as_its_user_calls_it(on_path: str | None, script: str, python: str, called: str) -> None:
    assert talk.command_of(on_path, script, python) == called


def test_commands_in_texts_can_be_called_as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk, "command", lambda: ".venv/bin/eigentensor")
    text = "`eigentensor ps` lists them; `eigentensor.store` is a module, eigentensor a package\nnext  eigentensor run"
    assert talk.callable_here(text) == (
        "`.venv/bin/eigentensor ps` lists them; `eigentensor.store` is a module, eigentensor a package\n"
        "next  .venv/bin/eigentensor run"
    )
    error = EigenTensorError("it failed", fix="`eigentensor ps` shows why.")
    assert error.__notes__ == ["`.venv/bin/eigentensor ps` shows why."]
    assert error.fix == "`eigentensor ps` shows why."  # as others read it, elsewhere
