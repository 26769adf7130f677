"""A residual network of PyTorch says which digit an image of bytes shows.

eigentensor run classifier.onnx -i @input.safetensors --wait checked -o output.safetensors

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


class Block(nn.Module):
    def __init__(self, channels: int, wider: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(channels, wider, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(wider), nn.BatchNorm2d(wider)])
        self.beside = nn.Conv2d(channels, wider, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(inner)) + self.beside(x)).relu()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), Block(8, 8, 1), Block(8, 16, 2))
        self.last = nn.Linear(16, 10)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(self.blocks(images.float() / 16 - 0.3).mean((2, 3)))

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The likeliest digit of each image, and the probability of each."""
        probabilities = self.logits(images).softmax(1)
        return probabilities.argmax(1), probabilities


torch.manual_seed(5)
digits = load_digits()
images, labels = torch.from_numpy(digits.images.astype(np.uint8)[:, None]), torch.from_numpy(digits.target)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(300):
    chosen = torch.randint(0, 1500, (64,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model.logits(images[chosen]), labels[chosen]).backward()
    optimizer.step()

model.eval()
x = images[1500 : 1500 + ROWS]
with torch.no_grad():
    digit, probabilities = model(x)
    right = (model(images[1500:])[0] == labels[1500:]).float().mean().item()
print(f"{right:.1%} of 297 digits that it never saw are read right")

names = {"input_names": ["images"], "output_names": ["digit", "probabilities"]}
exported = torch.onnx.export(model, (x,), **names, dynamic_shapes=({0: "rows"},))
for node in exported.model.graph:
    node.metadata_props.clear()  # which line of which file it comes from
exported.save("classifier.onnx", external_data=True)
save_file({"images": x.numpy()}, "input.safetensors")
save_file({"digit": digit.numpy(), "probabilities": probabilities.numpy()}, "original.safetensors")
