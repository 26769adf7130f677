"""Refusals: over HTTP, and of the command."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.texts import documented


@documented
class Problem(TypedDict):
    """RFC 9457, `application/problem+json`: what is wrong, and what to do."""

    type: str
    """`urn:eigentensor:error:` and the code."""
    title: str
    """The phrase of the HTTP status."""
    status: int
    """The HTTP status."""
    code: str
    """The error's name, which never changes its meaning."""
    detail: str
    """What is wrong this time, in words."""
    fix: NotRequired[str]
    """What to do about it, where somebody can."""


@documented
class Error(TypedDict):
    """`eigentensor.error/1`: what a command with `--json` prints when it fails."""

    schema: Literal["eigentensor.error/1"]
    """Says what this object is."""
    error: str
    """The error's name."""
    what: str
    """What is wrong, in words."""
    why: str
    """What caused it; empty where that is all."""
    fix: str
    """What to do about it; empty where nobody can."""
    exit_code: int
    """With what the command ends."""
