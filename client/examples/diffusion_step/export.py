"""A step of a diffusion model of PyTorch that draws digits: from noise to less noise.

eigentensor run step.onnx -i @input.safetensors --wait checked -o output.safetensors

t counts from 49, noise alone, down to 0.
`cmp output.safetensors expected.safetensors` says nothing: these are the bits. original.safetensors is what PyTorch
computes. All but expected.safetensors is written by this file (PyTorch 2.13 with onnxscript, scikit-learn 1.9), which
prints what all steps draw.
"""

import numpy as np
import torch
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from torch import nn

ROWS, STEPS, WIDTH = 4, 50, 16


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = nn.Embedding(STEPS, WIDTH)
        self.first, self.last = nn.Conv2d(1, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 1, 3, padding=1)
        self.inner = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, 3, padding=d, dilation=d) for d in (1, 2, 1)])
        clear = torch.cos(torch.linspace(0, 0.98, STEPS + 1) * torch.pi / 2) ** 2
        self.register_buffer("clear", clear)  # how much of the image is left at each time

    def noise(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The noise that is in images of the times t."""
        time = self.times(t)[:, :, None, None]
        x = self.first(x)
        for conv in self.inner:
            x = x + nn.functional.silu(conv(x + time))
        return self.last(x)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The images one step earlier; nothing is drawn at random (DDIM)."""
        now, then = self.at(t + 1), self.at(t)
        image = ((x - (1 - now).sqrt() * self.noise(x, t)) / now.sqrt()).clamp(-1, 1)
        noise = (x - now.sqrt() * image) / (1 - now).sqrt()
        return then.sqrt() * image + (1 - then).sqrt() * noise

    def at(self, t: torch.Tensor) -> torch.Tensor:
        return self.clear[t][:, None, None, None]


torch.manual_seed(6)
images = torch.from_numpy((load_digits().images / 8 - 1).astype(np.float32)[:, None])
model = Step()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(5000):
    chosen, t = images[torch.randint(0, len(images), (64,))], torch.randint(0, STEPS, (64,))
    noise, clear = torch.randn_like(chosen), model.at(t + 1)
    optimizer.zero_grad()
    guess = model.noise(clear.sqrt() * chosen + (1 - clear).sqrt() * noise, t)
    nn.functional.mse_loss(guess, noise).backward()
    optimizer.step()

model.eval()
x, t = torch.randn(ROWS, 1, 8, 8), torch.full((ROWS,), STEPS - 1)
with torch.no_grad():
    earlier, drawn = model(x, t), x
    for time in reversed(range(STEPS)):
        drawn = model(drawn, torch.full((ROWS,), time))
for lines in zip(*drawn[:, 0].tolist(), strict=True):
    print("   ".join("".join(" ░▒▓█"[min(int((value + 1) * 2.5), 4)] * 2 for value in line) for line in lines))

exported = torch.onnx.export(
    model,
    (x, t),
    input_names=["x", "t"],
    output_names=["earlier"],
    dynamic_shapes=({0: "rows"}, {0: "rows"}),
)
for node in exported.model.graph:
    node.metadata_props.clear()  # which line of which file it comes from
exported.save("step.onnx", external_data=True)
save_file({"x": x.numpy(), "t": t.numpy()}, "input.safetensors")
save_file({"earlier": earlier.numpy()}, "original.safetensors")
