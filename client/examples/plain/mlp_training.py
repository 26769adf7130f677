"""A multilayer perceptron learns a sine, step by step: weights and optimizer change with each."""

from tinygrad import Context, Tensor, nn
from tinygrad.nn.state import get_parameters

Tensor.manual_seed(3)


class MLP:
    def __init__(self):
        self.layers = [nn.Linear(1, 32), Tensor.tanh, nn.Linear(32, 1)]

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(self.layers)


mlp = MLP()
optimizer = nn.optim.Adam(get_parameters(mlp), lr=0.02)


def step(x: Tensor, y: Tensor) -> Tensor:
    with Context(TRAINING=1):
        optimizer.zero_grad()
        loss = (mlp(x) - y).square().mean().backward()
        return loss.realize(*optimizer.schedule_step())


x = Tensor.arange(64).reshape(64, 1).float() / 10
for number in range(4):
    loss = step(x, x.sin())
    print(f"step {number}: loss {loss.item():.4f}")
