"""Connections over HTTP as the environment wants them: by its proxies, but not to this machine itself."""

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.request import getproxies

import httpx

from eigentensor.errors import ConfigError

#: A proxy has another loopback than this machine: what is named so is reached from here, whatever NO_PROXY says.
_HERE: Mapping[str, None] = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}


def client(
    url: str, *, base_url: str = "", verify: ssl.SSLContext | bool | None = None, **options: Any
) -> httpx.Client:
    """A client for what is at a URL. Certificates are checked, unless `verify` says more, everywhere but over plain
    HTTP without a proxy: reading those of the system takes longer than a local network's answer. Raises ConfigError for
    proxies of the environment that cannot be used, httpx.InvalidURL for a base that is none."""
    if verify is None:
        verify = not url.lower().startswith("http://") or bool(getproxies())
    try:
        made = httpx.Client(verify=verify, mounts=_HERE, **options)
    except (ImportError, ValueError, httpx.InvalidURL) as error:  # what speaks SOCKS is not installed; it is no URL
        raise ConfigError(
            f"the proxy that the environment names cannot be used: {error}",
            fix="Correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, name hosts in NO_PROXY, or install 'httpx[socks]'.",
        ) from None
    made.base_url = base_url
    return made
