"""A PyTorch CNN reads digits, exported in both of PyTorch's ways.

eigentensor run cnn.onnx -i @input.safetensors --wait checked -o output.safetensors

cnn.onnx is from the dynamo exporter, cnn.torchscript.onnx from TorchScript's: the same bits.
`cmp output.safetensors expected.safetensors` says nothing: these are the bits. original.safetensors is what PyTorch
computes. All but expected.safetensors is written by this file (PyTorch 2.13 with onnxscript, scikit-learn 1.9).
The digits are those of E. Alpaydin and C. Kaynak, doi 10.24432/C50P49, CC BY 4.0, as scikit-learn has them.
"""

import numpy as np
import torch
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from torch import nn

ROWS = 16

torch.manual_seed(2)
digits = load_digits()
images, labels = torch.from_numpy((digits.images / 16).astype(np.float32)[:, None]), torch.from_numpy(digits.target)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(300):
    chosen = torch.randint(0, 1500, (64,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
    optimizer.step()

model.eval()
x = images[1500 : 1500 + ROWS]
with torch.inference_mode():
    logits = model(x)
    right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean().item()
print(f"{right:.1%} of 297 digits that it never saw are read right")

names = {"input_names": ["images"], "output_names": ["logits"]}
exported = torch.onnx.export(model, (x,), **names, dynamic_shapes=({0: "rows"},))
for node in exported.model.graph:
    node.metadata_props.clear()  # which line of which file it comes from
exported.save("cnn.onnx", external_data=True)
torch.onnx.export(model, (x,), "cnn.torchscript.onnx", **names, dynamic_axes={"images": {0: "rows"}}, dynamo=False)
save_file({"images": x.numpy()}, "input.safetensors")
save_file({"logits": logits.numpy()}, "original.safetensors")
