"""Packages that load what their names need when one is used: who needs one of them does not wait for the others."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loading(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `homes` are its modules, and the names that each of them has. No name may be that
    of a module, which would take its place."""
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return load
