"""A random forest of scikit-learn tells tumours apart, exported as skl2onnx does.

eigentensor run forest.onnx -i @input.safetensors --wait checked -o output.safetensors

Class 0 is malignant, 1 benign.
`cmp output.safetensors expected.safetensors` says nothing: these are the bits. original.safetensors is what
scikit-learn computes; its probabilities are a dictionary for each row after the export, here a column for each class.
All but expected.safetensors is written by this file (scikit-learn 1.9, skl2onnx 1.20).
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

ROWS = 16

cells, labels = load_breast_cancer(return_X_y=True)
cells = cells.astype(np.float32)
model = RandomForestClassifier(20, max_depth=6, random_state=3).fit(cells[:469], labels[:469])
x = cells[469 : 469 + ROWS]
print(f"{model.score(cells[469:], labels[469:]):.1%} of 100 that it never saw are told right")

Path("forest.onnx").write_bytes(to_onnx(model, x[:1]).SerializeToString())
save_file({"X": x}, "input.safetensors")
probabilities = model.predict_proba(x).astype(np.float32)
save_file({"output_label": model.predict(x), "output_probability": probabilities}, "original.safetensors")
