"""What is public says what it promises: every function, method and property of the product has a docstring.

A method may leave it to the class that declares it.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import FunctionType, ModuleType

import pytest

PACKAGES = (
    "eigentensor",
    "eigentensor_aggregator",
    "eigentensor_client",
    "eigentensor_cluster",
    "eigentensor_economics",
    "eigentensor_local",
    "eigentensor_models",
    "eigentensor_operator",
    "eigentensor_serve",
)


def modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.name.endswith("__main__") and ".migrations" not in module.name:
            yield importlib.import_module(module.name)


def undocumented(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) and not inspect.getdoc(value):
            yield f"{module.__name__}.{name}"
        if inspect.isclass(value):
            for member, attribute in vars(value).items():
                function = attribute.__func__ if isinstance(attribute, classmethod | staticmethod) else attribute
                if (
                    not member.startswith("_")
                    and isinstance(function, FunctionType | property)
                    and not inspect.getdoc(getattr(value, member))
                ):
                    yield f"{module.__name__}.{name}.{member}"


@pytest.mark.parametrize("package", PACKAGES)
def test_all_that_is_public_says_what_it_promises(package: str) -> None:
    assert [name for module in modules(package) for name in undocumented(module)] == []
