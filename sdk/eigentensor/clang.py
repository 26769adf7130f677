"""clang on this machine: some systems have it under the name of a release alone."""

import shutil

#: Names of the command, the plain one first, then the newest; older releases than 14 compile nothing that is tested.
NAMES = ("clang", *(f"clang-{release}" for release in range(21, 13, -1)))
FIX = "Install it, on Debian with `apt-get install clang`."


def path() -> str | None:
    """Where it is, or None. Looked for each time: whoever installs it need not start again."""
    return next((place for name in NAMES if (place := shutil.which(name)) is not None), None)
