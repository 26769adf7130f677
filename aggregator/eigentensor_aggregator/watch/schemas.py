"""The JSON object that `eigentensor watch` prints.

Importing it imports pydantic: those who make it import it where types are checked.
"""

from typing import Literal

from typing_extensions import TypedDict

from eigentensor.texts import Block, Name, documented


@documented
class Watched(TypedDict):
    """`eigentensor.watch/1`: what a watcher says of a task."""

    schema: Literal["eigentensor.watch/1"]
    """Says what this object is."""
    block: Block
    """When it says so."""
    task: Name
    """The task's uuid."""
    verdict: Literal["agrees", "differs", "unable"] | None
    """What came of executing it again; null: it was not executed."""
    said: str
    """More of that, in words."""
    games: list[int]
    """The games that this is about, by number."""
