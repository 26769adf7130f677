"""tinygrad's simplifier, confined to what it is right about: mathematical integers, and bools made of them.

Its rules take floats for real numbers and machine integers for such as never wrap. What a program computes on data is
neither; what it computes on counters and variables is exact, and needs simplifying.
"""

from typing import Any
from weakref import WeakKeyDictionary

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UPat

COMPUTING = GroupOp.ALU | {Ops.CAST, Ops.BITCAST, Ops.REDUCE}
LEAVES = {Ops.CONST, Ops.RANGE, Ops.PARAM}
_known: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()

#: A choice by a condition that index arithmetic has decided: the one thing that may happen to data.
decided = PatternMatcher(
    [(UPat.cvar("gate", dtypes.bool).where(UPat.var("a"), UPat.var("b")), lambda gate, a, b: a if gate.val else b)]
)


def is_index(u: Any) -> bool:
    """Whether a value is an exact integer, or a bool, that depends on counters, variables and constants alone."""
    if u.dtype not in (dtypes.weakint, dtypes.bool):
        return False
    if u not in _known:
        _known[u] = u.op in LEAVES or (u.op in COMPUTING | {Ops.STACK} and all(map(is_index, u.src)))
    return _known[u]


class Guard:
    """Rewrites as a PatternMatcher does, but leaves operations on data, and indices that depend on data, alone."""

    def __init__(self, matcher: Any) -> None:
        self.matcher = matcher

    def rewrite(self, u: Any, context: Any = None) -> Any:
        if u.op in COMPUTING and not is_index(u):
            return decided.rewrite(u, context)
        if u.op is Ops.INDEX and not all(map(is_index, u.src[1:])):
            return None
        return self.matcher.rewrite(u, context)


class Together:
    """Several matchers as one: the first that has a rewrite has it."""

    def __init__(self, *matchers: Any) -> None:
        self.matchers = matchers

    def rewrite(self, u: Any, context: Any = None) -> Any:
        return next((new for m in self.matchers if (new := m.rewrite(u, context)) is not None), None)
