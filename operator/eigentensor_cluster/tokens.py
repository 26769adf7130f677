"""Who may come to the door: a file with a line for each, which nobody else may read."""

import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from eigentensor.cluster.address import parse_token
from eigentensor.cluster.frames import Role
from eigentensor.errors import ConfigError

LEAST, MOST = 1e-3, 1e6  #: of an allowance, in seconds of slots

_HEAD = """\
# Who may come to the cluster: ROLE NAME TOKEN [WEIGHT [ALLOWANCE]], a line each. Roles: client, worker, keeper.
# A token is 64 hex digits; whoever has it gets it as a file of its own. A client's work counts by its weight, and may
# take so many seconds of slots in a minute, all sessions of that name together.
"""


class Member(NamedTuple):
    """Somebody who may come, as what; clients take turns by their weights, and may take `allowance` seconds of slots in
    a minute; None: as the cluster has it."""

    role: Role
    name: str
    weight: float = 1.0
    allowance: float | None = None


class Tokens:
    """Members by what their tokens hash to: how long it takes to look one up says nothing of another."""

    def __init__(self, members: Mapping[bytes, Member]) -> None:
        """`members` are by their tokens."""
        self._members = {hashlib.sha256(token).digest(): member for token, member in members.items()}

    def member(self, token: bytes) -> Member | None:
        """Whose token this is; None if it is nobody's."""
        return self._members.get(hashlib.sha256(token).digest())


def write_new(path: Path) -> None:
    """A file with a new token for each role. Raises OSError if it is there, or cannot be written."""
    lines = [f"{role.name.lower()} {role.name.lower()} {secrets.token_hex(32)}\n" for role in Role]
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_HEAD + "".join(lines))


def read(path: Path) -> Tokens:
    """The members of a file. Raises ConfigError, with the line, for what is none; for a file that others may read."""
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"others may read {path}, which has tokens", fix=f"Run `chmod 600 {path}`.")
    members: dict[bytes, Member] = {}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if words := line.partition("#")[0].split():
            token, member = _parsed(f"{path}:{number}", words)
            if token in members:
                raise ConfigError(f"{path}:{number}: a token is there twice", fix="Give each member one of its own.")
            members[token] = member
    return Tokens(members)


def _parsed(where: str, words: list[str]) -> tuple[bytes, Member]:
    fix = "A line is ROLE NAME TOKEN [WEIGHT [ALLOWANCE]]; a role is client, worker or keeper, a token 64 hex digits."
    try:
        role, name, token, *numbers = words
        weight = float(numbers.pop(0)) if numbers else 1.0
        allowance = float(numbers.pop(0)) if numbers else None
        member = Member(Role[role.upper()], name, weight, allowance)
        if numbers:
            raise ValueError("there are more words than a line has")
        if not 0.001 <= member.weight <= 1000 or len(name.encode()) > 64:
            raise ValueError("a weight is 0.001 to 1000, a name of 64 bytes at most")
        if allowance is not None and not LEAST <= allowance <= MOST:
            raise ValueError("an allowance is 0.001 to 1,000,000 seconds in a minute")
        return parse_token(token), member
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{where} is no member", fix=fix) from error
