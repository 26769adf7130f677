"""Examples to begin with."""

from typing import Literal

from typing_extensions import TypedDict

from eigentensor.texts import documented


@documented
class Example(TypedDict):
    """Something to begin with."""

    name: str
    """What `eigentensor init` takes."""
    what: str
    """What it is, in a line."""
    command: str
    """The command that makes it a paid task, in the example's folder."""
    files: list[str]
    """Its files: their places in its folder, or where they were written."""


@documented
class Examples(TypedDict):
    """`eigentensor.examples/1`: the examples that can be written."""

    schema: Literal["eigentensor.examples/1"]
    """Says what this object is."""
    examples: list[Example]
    """In the order in which they are shown."""


@documented
class WrittenExample(Example):
    """`eigentensor.example/1`: an example that was written."""

    schema: Literal["eigentensor.example/1"]
    """Says what this object is."""
    folder: str
    """The folder that it was written into."""
