"""Ensembles of decision trees of ONNX ML: what scikit-learn's forests and boosted trees become.

Each level of all trees is one call: every row reads the node at which it is in each tree, compares, and goes on.
"""

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

import numpy as np
from tinygrad import Tensor, dtypes

from eigentensor.capture.onnx.estimators import floats, labelled, numbered, transformed
from eigentensor.capture.onnx.file import Node
from eigentensor.capture.onnx.registry import operator, refuse

DEPTH = 64  #: levels of a tree at most, each a call
SCORES = 1 << 24  #: of all nodes in all columns, at most
#: How a node compares. NaN goes where a comparison leads that does not hold.
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "BRANCH_LEQ": le, "BRANCH_LT": lt, "BRANCH_GTE": ge, "BRANCH_GT": gt,
}  # fmt: skip


class Trees(NamedTuple):
    """The nodes of all trees one after the other. A leaf leads to itself."""

    places: dict[tuple[int, int], int]  #: of each node, by tree and number in it
    roots: list[int]
    features: Sequence[int]
    thresholds: Sequence[float]
    held: list[int]  #: where a row goes for which the comparison holds
    failed: list[int]
    compare: Callable[[Tensor, Tensor], Tensor]
    depth: int

    def leaves(self, x: Tensor) -> Tensor:
        """The node at which each row ends in each tree: (rows, trees)."""
        features, held, failed = (Tensor(list(t), dtype=dtypes.int32) for t in (self.features, self.held, self.failed))
        at = Tensor(self.roots, dtype=dtypes.int32).reshape(1, -1).expand(x.shape[0], len(self.roots))
        thresholds = floats(self.thresholds)
        for _ in range(self.depth):
            holds = self.compare(x.cast(dtypes.float32).gather(1, features[at]), thresholds[at])
            at = holds.where(held[at], failed[at]).contiguous()
        return at

    def sums(self, x: Tensor, leaves: Sequence[tuple[int, int]], columns: Sequence[int], weights: Sequence[float],
             count: int, node: Node) -> Tensor:  # fmt: skip
        """For each row the sum over the trees of what the leaves have, in so many columns."""
        if x.ndim != 2 or any(not 0 <= feature < x.shape[1] for feature in self.features):
            raise refuse(node, f"it reads features beyond the shape {x.shape}", "check it with onnx.checker")
        if len(self.held) * count > SCORES:
            raise refuse(node, f"{count} columns for {len(self.held)} nodes", "train it with fewer or smaller trees")
        table = np.zeros((len(self.held), count), np.float32)
        for leaf, column, weight in zip(leaves, columns, weights, strict=True):
            if leaf not in self.places or not 0 <= column < count:
                raise refuse(node, f"the weight of the node {leaf}", "check it with onnx.checker")
            table[self.places[leaf], column] += weight
        return Tensor(table)[self.leaves(x)].sum(1)


def trees(node: Node) -> Trees:
    """Those of a node's attributes. Raises CaptureError for what is no tree, or decides in another way."""

    def part(name: str) -> tuple[Any, ...]:
        return tuple(node.attributes.get(f"nodes_{name}", ()))

    modes, tree = part("modes"), part("treeids")
    parts = (part("featureids"), part("values"), part("truenodeids"), part("falsenodeids"))
    places = {key: place for place, key in enumerate(zip(tree, part("nodeids"), strict=False))}
    if {len(modes), len(tree), *map(len, parts)} != {len(places)}:
        raise refuse(node, "its nodes are not whole", "check it with onnx.checker")
    kinds = {mode for mode in modes if mode != "LEAF"} or {"BRANCH_LEQ"}
    if len(kinds) > 1 or not kinds <= COMPARISONS.keys() or any(part("missing_value_tracks_true")):
        raise refuse(node, f"branches of the kind {', '.join(sorted(kinds))}, or for values that are missing")
    held, failed = (
        [i if modes[i] == "LEAF" else places.get((tree[i], child), -1) for i, child in enumerate(children)]
        for children in parts[2:]
    )
    roots = list({t: i for i, t in reversed(list(enumerate(tree)))}.values())
    depth = _depth(roots, held, failed, node)
    return Trees(places, roots, parts[0], parts[1], held, failed, COMPARISONS[kinds.pop()], depth)


def _depth(roots: Sequence[int], held: Sequence[int], failed: Sequence[int], node: Node) -> int:
    """How many comparisons the longest way takes."""
    if min(*held, *failed, 0) < 0:
        raise refuse(node, "a branch leads nowhere", "check it with onnx.checker")
    level, depth = set(roots), 0
    while inner := {i for i in level if (held[i], failed[i]) != (i, i)}:
        level, depth = {child for i in inner for child in (held[i], failed[i])}, depth + 1
        if depth > DEPTH:
            raise refuse(node, f"a tree of more than {DEPTH} levels", "train it with a smaller max_depth")
    return depth


@operator("ai.onnx.ml.TreeEnsembleRegressor")
def tree_ensemble_regressor(
    x: Tensor, n_targets: int = 1, aggregate_function: str = "SUM", post_transform: str = "NONE",
    base_values: Sequence[float] = (), target_treeids: Sequence[int] = (), target_nodeids: Sequence[int] = (),
    target_ids: Sequence[int] = (), target_weights: Sequence[float] = (), nodes_treeids: Any = (),
    nodes_nodeids: Any = (), nodes_featureids: Any = (), nodes_values: Any = (), nodes_hitrates: Any = (),
    nodes_modes: Any = (), nodes_truenodeids: Any = (), nodes_falsenodeids: Any = (),
    nodes_missing_value_tracks_true: Any = (), *, node: Node,
) -> Tensor:  # fmt: skip
    """ONNX ML TreeEnsembleRegressor: the sum or mean of what the leaves have, a column for each target."""
    ensemble, leaves = trees(node), list(zip(target_treeids, target_nodeids, strict=True))
    result = ensemble.sums(x, leaves, target_ids, target_weights, n_targets, node)
    if aggregate_function not in ("SUM", "AVERAGE"):
        raise refuse(node, f"aggregate_function {aggregate_function!r}")
    result = result / len(ensemble.roots) if aggregate_function == "AVERAGE" else result
    return transformed(_based(result, base_values, node), post_transform, node)


@operator("ai.onnx.ml.TreeEnsembleClassifier")
def tree_ensemble_classifier(
    x: Tensor, post_transform: str = "NONE", classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (), base_values: Sequence[float] = (), class_treeids: Sequence[int] = (),
    class_nodeids: Sequence[int] = (), class_ids: Sequence[int] = (), class_weights: Sequence[float] = (),
    nodes_treeids: Any = (), nodes_nodeids: Any = (), nodes_featureids: Any = (), nodes_values: Any = (),
    nodes_hitrates: Any = (), nodes_modes: Any = (), nodes_truenodeids: Any = (), nodes_falsenodeids: Any = (),
    nodes_missing_value_tracks_true: Any = (), *, node: Node,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """ONNX ML TreeEnsembleClassifier: the label of the largest score, and the scores, a column for each class.

    Where all leaves have weights of the first of two classes, these are the second one's scores; those of the first are
    what is missing to 1, or with a `post_transform` their negatives.
    """
    labels = numbered(classlabels_int64s, classlabels_strings, node)
    leaves, several = list(zip(class_treeids, class_nodeids, strict=True)), len(set(class_ids)) > 1
    if len(labels) < 2 or not (several or (set(class_ids) == {0} and len(labels) == 2)):
        raise refuse(node, "weights for one class alone")
    scores = trees(node).sums(x, leaves, class_ids, class_weights, len(labels) if several else 1, node)
    scores = _based(scores, base_values, node)
    if not several:
        scores = (1 - scores if post_transform == "NONE" else -scores).cat(scores, dim=1)
    return labelled(scores, labels), transformed(scores, post_transform, node)


def _based(scores: Tensor, values: Sequence[float], node: Node) -> Tensor:
    """The scores with what is added to each column, or to all of them."""
    if len(values) not in (0, 1, scores.shape[1]):
        raise refuse(node, f"{len(values)} base values for {scores.shape[1]} columns", "check it with onnx.checker")
    return scores + floats(values) if values else scores
