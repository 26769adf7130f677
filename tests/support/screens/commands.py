"""Every command that there is, by the words that call it: those of the client and of all parts."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from eigentensor_client.cli import PARTS, VERBS, app


def commands() -> dict[str, Any]:
    """What does something itself, at whatever depth: `serve`, `serve token new`, `operator up`."""
    group: Any = get_command(app)
    return {words: leaf for name in (*VERBS, *PARTS) for words, leaf in _below(name, group.get_command(None, name))}


def _below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _below(f"{words} {name}", below)
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield words, command
