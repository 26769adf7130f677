"""Packages that not everybody needs: a part that stands on some asks for them first, by the extra that brings them."""

from importlib.util import find_spec

from eigentensor.errors import ConfigError

#: Modules that a client's install lacks, by the extra of pyproject.toml that brings them.
AGGREGATOR = ("alembic", "fsspec", "sqlmodel")
MODULES = {
    "aggregator": AGGREGATOR,
    "cluster": ("cryptography",),
    "kms": ("boto3",),
    "local": AGGREGATOR,
    "models": ("tokenizers",),
    "plots": ("matplotlib",),
    "ray": ("ray",),
}


def require(extra: str) -> None:
    """Raises ConfigError, which says what to install, unless there is all that an extra brings. Imports nothing."""
    if missing := [module for module in MODULES[extra] if find_spec(module) is None]:
        raise ConfigError(
            f"this needs packages that are not installed: {', '.join(missing)}",
            fix=f"Run `pip install 'eigentensor[{extra}]'`.",
        )
