"""Whether a command talks beside its data: what all parts of the command line ask."""

from contextvars import ContextVar

#: Whether talk is left out: `--quiet`. Data and errors are said nevertheless, and what logs say from warnings on.
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
