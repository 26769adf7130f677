"""Where rules of simplification register themselves."""

from collections.abc import Callable

from eigentensor.graph.node import Form, Node
from eigentensor.program.ops import Op

Rule = Callable[[Node], Node | None]
#: The rules by what they look at; each gives None where it does not apply.
RULES: dict[Op | Form, list[Rule]] = {}


def rule(*ops: Op | Form) -> Callable[[Rule], Rule]:
    """Registers a rule for nodes of these operations."""

    def register(function: Rule) -> Rule:
        for op in ops:
            RULES.setdefault(op, []).append(function)
        return function

    return register
