"""Heat spreads on a plate whose edge is kept cold: the heat equation, by explicit differences.

python remote/heat_equation.py

Each call of `diffuse` is a paid task there, on the network that runs (`eigentensor devnet`). plain/heat_equation.py
computes the same here. Both print remote/heat_equation.txt.
"""

from tinygrad import Tensor

import eigentensor as et

SIZE, STEPS, RATE = 32, 10, 0.2


@et.function(max_price="0.05", wait="checked")
def diffuse(plate: Tensor) -> Tensor:
    for _ in range(STEPS):
        padded = plate.pad(((1, 1), (1, 1)))
        around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        plate = (plate + RATE * (around - 4 * plate)).contiguous()
    return plate


plate = Tensor.ones(4, 4).pad(((14, 14), (14, 14))).contiguous() * 100
for number in range(3):
    plate = diffuse.remote(plate)
    print(
        f"after {STEPS * (number + 1)} steps: {plate.max().item():.2f} degrees at most, {plate.sum().item():.1f} in all"
    )
