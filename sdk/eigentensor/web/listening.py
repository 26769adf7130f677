"""A socket on which a service listens."""

import socket

from eigentensor.errors import ConfigError


def listen(host: str, port: int) -> socket.socket:
    """Port 0 chooses a free one. Raises ConfigError if the address is taken or is none."""
    try:
        listening = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}", fix="Name another port.") from None
    # Answers are two small writes: without this the second waits 40 ms for the caller to acknowledge the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
