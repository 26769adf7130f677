"""Operators of ONNX ML, of which onnx has no node tests: held to its evaluator, or refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from eigentensor import reference
from eigentensor.capture import import_onnx
from eigentensor.errors import CaptureError
from support.programs.onnx_models import FLOAT, Arrays, model, node, normal, saved

ROWS = 7
#: Two trees: one with two comparisons on its longest way, one that is a leaf.
TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1], "nodes_nodeids": [0, 1, 2, 3, 4, 0], "nodes_featureids": [2, 0, 0, 0, 0, 0],
    "nodes_values": [0.25, -0.5, 0.0, 0.0, 0.0, 0.0], "nodes_truenodeids": [1, 2, 0, 0, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 0], "nodes_missing_value_tracks_true": [0] * 6,
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"],
}  # fmt: skip
LEAVES = {"treeids": [0, 0, 0, 1], "nodeids": [2, 3, 4, 0], "ids": [0, 1, 0, 1], "weights": [0.5, -1.5, 2.0, 0.75]}


def of_part(part: str, **changed: list[Any]) -> dict[str, Any]:
    return {f"{part}_{name}": value for name, value in {**LEAVES, **changed}.items()}


def classifier(kind: str, labels: str, **attributes: Any) -> tuple[str, dict[str, Any], tuple[int, int]]:
    return kind, {labels: [0, 1, 7], **attributes}, (TensorProto.INT64, FLOAT)


LINEAR = {"coefficients": normal(12).tolist(), "intercepts": normal(3).tolist()}
CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "scaler": ("Scaler", {"offset": normal(4).tolist(), "scale": normal(4).tolist()}, (FLOAT,)),
    "scaler of one number": ("Scaler", {"offset": [1.5], "scale": [0.3]}, (FLOAT,)),
    "normalizer of 1": ("Normalizer", {"norm": "L1"}, (FLOAT,)),
    "normalizer of 2": ("Normalizer", {"norm": "L2"}, (FLOAT,)),
    "regressor": ("LinearRegressor", {**LINEAR, "targets": 3}, (FLOAT,)),
    "classifier": classifier("LinearClassifier", "classlabels_ints", **LINEAR),
    "classifier, softmax": classifier("LinearClassifier", "classlabels_ints", **LINEAR, post_transform="SOFTMAX"),
    "classifier, logistic": classifier("LinearClassifier", "classlabels_ints", **LINEAR, post_transform="LOGISTIC"),
    "trees": ("TreeEnsembleRegressor", {**TREES, **of_part("target"), "n_targets": 2}, (FLOAT,)),
    "trees, mean and base": (
        "TreeEnsembleRegressor",
        {**TREES, **of_part("target"), "n_targets": 2, "aggregate_function": "AVERAGE", "base_values": [0.5, 1.0]},
        (FLOAT,),
    ),
    "tree classifier": classifier("TreeEnsembleClassifier", "classlabels_int64s", **TREES, **of_part("class")),
    "tree classifier, softmax": classifier(
        "TreeEnsembleClassifier", "classlabels_int64s", **TREES, **of_part("class"), post_transform="SOFTMAX"
    ),
    **{
        f"trees for one of two, {transform}": (
            "TreeEnsembleClassifier",
            {**TREES, **of_part("class", ids=[0] * 4), "classlabels_int64s": [3, 5], "post_transform": transform},
            (TensorProto.INT64, FLOAT),
        )
        for transform in ("NONE", "LOGISTIC")
    },
    **{
        f"trees, {mode}": (
            "TreeEnsembleRegressor",
            {**TREES, **of_part("target"), "n_targets": 2, "nodes_modes": [mode, mode, *["LEAF"] * 4]},
            (FLOAT,),
        )
        for mode in ("BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
    },
}


def made(kind: str, attributes: dict[str, Any], outputs: tuple[int, ...]) -> ModelProto:
    names = ["label", "scores"][-len(outputs) :]
    estimator = node(kind, ["x"], names, domain="ai.onnx.ml", **attributes)
    built = model([estimator], {"x": (FLOAT, ("rows", 4))}, dict(zip(names, outputs, strict=True)))
    built.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return built


def rows() -> Arrays:
    """Some that lie on a threshold, and one of zeros."""
    x = normal(ROWS, 4)
    x[0], x[1, 2], x[2, 0] = 0, 0.25, -0.5
    return {"x": x}


@pytest.mark.parametrize("name", CASES)
def test_an_estimator_computes_what_onnx_says(name: str, tmp_path: Path) -> None:
    built, inputs = made(*CASES[name]), rows()
    graph = import_onnx(saved(built, tmp_path), {"x": (ROWS, 4)}, fingerprint=False)
    results = reference.execute(graph.program, {**graph.weights, **inputs}).outputs
    names = [output.name for output in built.graph.output]
    for output, expected in zip(names, ReferenceEvaluator(built).run(names, inputs), strict=True):
        assert results[output].dtype == expected.dtype
        np.testing.assert_allclose(results[output], expected, rtol=2e-5, atol=2e-6, err_msg=output)


def test_scores_by_class_are_a_column_for_each(tmp_path: Path) -> None:
    built = made(*CASES["classifier, softmax"])
    built.graph.node.append(node("ZipMap", ["scores"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 7]))
    built.graph.output[1].name = "p"
    graph, inputs = import_onnx(saved(built, tmp_path), {"x": (ROWS, 4)}, fingerprint=False), rows()
    outputs = reference.execute(graph.program, {**graph.weights, **inputs}).outputs
    assert outputs["p"].shape == (ROWS, 3)
    np.testing.assert_allclose(outputs["p"].sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("normalizer of 1", {"norm": "MAX"}, "Normalizer cannot be imported: the norm 'MAX'"),
        ("classifier", {"post_transform": "PROBIT"}, "post_transform 'PROBIT'"),
        ("classifier", {"coefficients": [1.0]}, "1 coefficients for 4 columns and 3 results"),
        ("classifier", {"classlabels_ints": [], "classlabels_strings": ["a", "b", "c"]}, "its labels are no numbers"),
        ("tree classifier", {"class_ids": [2] * 4}, "weights for one class alone"),
        ("tree classifier", {"class_ids": [3, 2, 1, 0]}, r"the weight of the node \(0, 2\)"),
        ("tree classifier", {"base_values": [1.0, 2.0]}, "2 base values for 3 columns"),
        ("trees", {"aggregate_function": "MAX"}, "aggregate_function 'MAX'"),
        ("trees", {"nodes_modes": ["BRANCH_NEQ", *["LEAF"] * 5]}, "branches of the kind BRANCH_NEQ"),
        ("trees", {"nodes_missing_value_tracks_true": [1] * 6}, "for values that are missing"),
        ("trees", {"nodes_values": [0.25]}, "its nodes are not whole"),
        ("trees", {"nodes_featureids": [4, *[0] * 5]}, "it reads features beyond the shape"),
        ("trees", {"n_targets": 1 << 40}, "columns for 6 nodes"),
        ("trees", {"nodes_truenodeids": [9] * 6}, "a branch leads nowhere"),
        ("trees", {"nodes_truenodeids": [0] * 6}, "a tree of more than 64 levels"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(
    name: str, changed: dict[str, Any], why: str, tmp_path: Path
) -> None:
    kind, attributes, outputs = CASES[name]
    built = made(kind, {n: v for n, v in (attributes | changed).items() if v != []}, outputs)
    with pytest.raises(CaptureError, match=why) as refused:
        import_onnx(saved(built, tmp_path), {"x": (ROWS, 4)})
    assert refused.value.fix
