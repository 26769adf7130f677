"""Ports for processes that are started later, which cannot be asked which one they took."""

import random
import socket
from pathlib import Path

_FIRST = 20_000
_LAST = 32_767  #: the last below those that Linux gives to whoever asks for any; elsewhere it begins later still
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of this machine that is free, and that the system gives to nobody meanwhile who asks it for any."""
    last = min(_LAST, int(_RANGE.read_text().split()[0]) - 1) if _RANGE.exists() else _LAST
    for port in random.sample(range(_FIRST, last + 1), max(0, last + 1 - _FIRST)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    with socket.socket() as probe:  # the system gives them all
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
