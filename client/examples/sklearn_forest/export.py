"""A random forest of scikit-learn tells waves apart, exported as skl2onnx does.

eigentensor run forest.onnx -i @input.safetensors --wait checked -o output.safetensors

Each wave is 32 samples of a sine (class 0), a square (1) or a sawtooth (2), of any pitch, phase and loudness, with
noise; all are drawn from a seed. `cmp output.safetensors expected.safetensors` says nothing: these are the bits.
original.safetensors is what scikit-learn computes; its probabilities are a dictionary for each row after the export,
here a column for each class. All but expected.safetensors is written by this file (scikit-learn 1.9, skl2onnx 1.20).
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier

ROWS, SAMPLES, TRAINING = 16, 32, 2000


def waves(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves, a row each, and their classes."""
    kinds = random.integers(0, 3, count)
    pitch, phase, loudness = random.uniform((1, 0, 0.5), (2, 1, 2), (count, 3)).T[:, :, None]
    turns = (pitch * np.arange(SAMPLES) / SAMPLES + phase) % 1
    sine = np.sin(2 * np.pi * turns)
    shapes = np.choose(kinds[:, None], (sine, np.sign(sine), 2 * turns - 1))
    noisy = loudness * shapes + random.normal(0, 0.1, shapes.shape)
    return noisy.astype(np.float32), kinds


random = np.random.default_rng(3)
x, kinds = waves(random, TRAINING)
model = RandomForestClassifier(10, max_depth=8, random_state=3).fit(x, kinds)
x, kinds = waves(random, 1000)
print(f"{model.score(x, kinds):.1%} of 1,000 that it never heard are told right")

x = x[:ROWS]
Path("forest.onnx").write_bytes(to_onnx(model, x[:1]).SerializeToString())
save_file({"X": x}, "input.safetensors")
probabilities = model.predict_proba(x).astype(np.float32)
save_file({"output_label": model.predict(x), "output_probability": probabilities}, "original.safetensors")
