"""Sums of products of three tensors, two at a time: (A·B)·C → A·(B·C), whatever axes they have in common."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from eigentensor.graph.node import Form, Node, is_bounded, node
from eigentensor.program.ops import Op

OUTER, INNER = range(64), range(64, 128)  #: labels


class Labelled(NamedTuple):
    """A tensor with a label for each axis; equal labels are one index."""

    tensor: Node
    labels: tuple[int, ...]


def reassociate(n: Node) -> Iterator[Node]:
    """Σ (Σ a·b)·c → Σ a·(Σ b·c), where that is less work"""
    outer = _factors(n, OUTER)
    if outer is None:
        return
    left, right, kept = outer
    for inner, c in ((left, right), (right, left)):
        below = _factors(inner.tensor, INNER)
        if below is None:
            continue
        renamed = dict(zip(below[2], inner.labels, strict=True))
        a, b = (Labelled(t, tuple(renamed.get(label, label) for label in of)) for t, of in below[:2])
        extents = {label: e for t, of in (a, b, c) for label, e in zip(of, t.shape, strict=True)}
        now = _work((a, b), extents) + _work((inner, c), extents)
        for first, second in ((a, b), (b, a)):
            shared = tuple(x for x in dict.fromkeys(second.labels + c.labels) if x in first.labels + kept)
            if _work((second, c), extents) + _work((first, Labelled(n, shared)), extents) < now:
                product = Labelled(contracted(second, c, shared, extents), shared)
                yield contracted(first, product, kept, extents)


def contracted(a: Labelled, b: Labelled, kept: Sequence[int], extents: Mapping[int, int]) -> Node:
    """The sum of a·b over all labels that are not kept, with an axis for each that is."""
    summed = [label for label in dict.fromkeys(a.labels + b.labels) if label not in kept]
    order = [*kept, *summed]
    shape = tuple(extents[label] for label in order)
    factors = []
    for tensor, labels in (a, b):
        own = sorted(range(len(labels)), key=lambda axis: order.index(labels[axis]))
        turned = tensor if own == list(range(len(own))) else node(Form.PERMUTE, tensor, arg=tuple(own))
        ones = tuple(extents[label] if label in labels else 1 for label in order)
        factors.append(node(Form.EXPAND, node(Form.RESHAPE, turned, arg=ones), arg=shape))
    product = node(Op.MUL, *factors)
    return node(Op.REDUCE_ADD, product, arg=tuple(range(len(kept), len(order)))) if summed else product


def _work(factors: Sequence[Labelled], extents: Mapping[int, int]) -> int:
    return prod(extents[label] for label in {label for factor in factors for label in factor.labels})


def _factors(n: Node, names: Sequence[int]) -> tuple[Labelled, Labelled, tuple[int, ...]] | None:
    """Both factors of a sum of products, and the labels of its axes; None if one has extent 1 or only repeats."""
    if n.op is not Op.REDUCE_ADD or not n.dtype.is_float or n.src[0].op is not Op.MUL or is_bounded(n):
        return None
    factors = [_labelled(factor, names[: len(n.src[0].shape)]) for factor in n.src[0].src]
    kept = tuple(names[axis] for axis in range(len(n.src[0].shape)) if axis not in n.arg)
    both = {label for factor in factors if factor for label in factor.labels}
    if factors[0] is None or factors[1] is None or any(label not in both for label in kept):
        return None
    reduced = {names[axis] for axis in n.arg if n.src[0].shape[axis] > 1}
    return (factors[0], factors[1], kept) if reduced <= both else None


def _labelled(n: Node, labels: Sequence[int]) -> Labelled | None:
    """What a tensor is before it was turned and repeated, with those of its axes' labels that it has itself.

    None if a movement on the way does anything else.
    """
    own: list[int | None] = list(labels)
    while n.op in (Form.EXPAND, Form.PERMUTE, Form.RESHAPE):
        source = n.src[0]
        if n.op is Form.EXPAND:
            own = [label if e == s else None for label, e, s in zip(own, n.shape, source.shape, strict=True)]
        elif n.op is Form.PERMUTE:
            turned = sorted(zip(n.arg, own, strict=True), key=lambda pair: pair[0])
            own = [label for _, label in turned]
        else:
            if [e for e in n.shape if e > 1] != [e for e in source.shape if e > 1]:
                break
            real = iter([label for label, e in zip(own, n.shape, strict=True) if e > 1])
            own = [next(real) if e > 1 else None for e in source.shape]
        n = source
    if any(label is None and e > 1 for label, e in zip(own, n.shape, strict=True)):
        return None
    large = [(label, e) for label, e in zip(own, n.shape, strict=True) if e > 1]
    shape = tuple(e for _, e in large)
    small = n if shape == n.shape else node(Form.RESHAPE, n, arg=shape)
    return Labelled(small, tuple(label for label, _ in large if label is not None))
