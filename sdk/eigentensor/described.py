"""What describes the members of classes: the text below each of them, read once from the source of their module."""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any


def describe(members: dict[str, Any], kind: Any) -> None:
    """Adds the descriptions to the properties of a JSON schema that have none."""
    for name, text in descriptions(kind).items():
        if name in members["properties"]:
            members["properties"][name].setdefault("description", text)


@cache
def descriptions(kind: Any) -> Mapping[str, str]:
    """The texts below the members that a class itself has, by name; none where its source is not there."""
    texts = {}
    for pair in pairwise(_bodies(kind.__module__).get(kind.__qualname__, ())):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = cleandoc(text)
    return texts


@cache  # pydantic, too, reads such texts, but the whole source again for each class and each route that returns it
def _bodies(module: str) -> Mapping[str, list[ast.stmt]]:
    """The bodies of a module's classes, by their qualified names."""
    try:
        tree = ast.parse(getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    return dict(_classes(tree.body, ""))


def _classes(body: list[ast.stmt], outer: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield outer + one.name, one.body
            yield from _classes(one.body, f"{outer}{one.name}.")
