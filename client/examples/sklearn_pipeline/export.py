"""A scaler and logistic regression of scikit-learn read digits, exported as skl2onnx does.

eigentensor run pipeline.onnx -i @input.safetensors --wait checked -o output.safetensors

`cmp output.safetensors expected.safetensors` says nothing: these are the bits. original.safetensors is what
scikit-learn computes; its probabilities are a dictionary for each row after the export, here a column for each class.
All but expected.safetensors is written by this file (scikit-learn 1.9, skl2onnx 1.20).
The digits are those of E. Alpaydin and C. Kaynak, doi 10.24432/C50P49, CC BY 4.0, as scikit-learn has them.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ROWS = 16

pixels, labels = load_digits(return_X_y=True)
pixels = pixels.astype(np.float32)
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(pixels[:1500], labels[:1500])
x = pixels[1500 : 1500 + ROWS]
print(f"{model.score(pixels[1500:], labels[1500:]):.1%} of 297 digits that it never saw are read right")

Path("pipeline.onnx").write_bytes(to_onnx(model, x[:1]).SerializeToString())
save_file({"X": x}, "input.safetensors")
probabilities = model.predict_proba(x).astype(np.float32)
save_file({"output_label": model.predict(x), "output_probability": probabilities}, "original.safetensors")
