"""Whether a command talks beside its data: what all parts of the command line ask."""

import sys
from contextvars import ContextVar

#: Whether talk is left out: `--quiet`. Data and errors are said nevertheless, and what logs say from warnings on.
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)


def say(line: str) -> None:
    """A line of talk to stderr, unless talk is left out."""
    if not QUIET.get():
        sys.stderr.write(f"{line}\n")
