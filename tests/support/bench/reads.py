"""Processor time of commands that only read, on a local network with a task, in milliseconds.

scripts/bench reads    the least of ten runs each; the goal is 400 ms on an idle machine
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from eigentensor import merkle
from eigentensor.program.codec import encode
from eigentensor.store import save_safetensors
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_local.devnet import devnet
from support.bench.pairs import say
from support.bench.processor_time import least
from support.programs.worked_examples import layer

GOAL, RUNS = 400.0, 10
READS = (
    "ps", "task show TASK", "task explain TASK", "logs TASK", "wallet show", "network list", "network show",
    "plan x.program -i x=@x.npy -w w.safetensors --max-price 0.05",
)  # fmt: skip


def main() -> None:
    example, nobody = layer(), merkle.operators_root([bytes(19) + b"\x01"])
    weights = {name: np.array(array) for name, array in example.tensors.items()}
    inputs = {"x": weights.pop("x")}
    with TemporaryDirectory() as place, devnet(block_time=None, path=Path(place, "bench.json")) as net:
        folder = Path(place)
        (folder / "x.program").write_bytes(encode(example.program))
        np.save(folder / "x.npy", inputs["x"])
        save_safetensors(folder / "w.safetensors", weights)
        with Client(net.network) as client:
            work = Work(example.program, inputs, weights)
            (task,) = client.post([work], Terms(10**15, operators=nobody, accept_within=10_000))
        settings, bytecode = {"EIGENTENSOR_NETWORK": str(net.path)}, folder / "bytecode"
        for line in READS:
            words = [*line.replace("TASK", task.uuid).split(), "--quiet"]
            took = least(words, RUNS, bytecode, folder=folder, settings=settings)
            say(f"{' '.join(line.split()[:3]):20} {took:4.0f} ms, {took / GOAL:.2f} of {GOAL:.0f}")


if __name__ == "__main__":
    main()
