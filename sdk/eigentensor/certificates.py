"""Which connections need certificates: reading those of the system takes longer than a local network's answer."""

from urllib.request import getproxies


def needed(url: str) -> bool:
    """Whether who connects to a URL is to check certificates: everywhere but over plain HTTP without a proxy."""
    return not url.lower().startswith("http://") or bool(getproxies())
