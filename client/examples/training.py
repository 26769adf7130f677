"""The digits network is trained in paid tasks, each from where the last one left it.

python training.py

It pays on the network that runs (`eigentensor devnet`); started again, it goes on where it was. training.txt has the
number and the loss of each task, which it prints with the task and who executed it.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tinygrad import Tensor, nn
from tinygrad.helpers import Context

from digits import Digits, Net, load
from eigentensor.capture import GraphProgram, capture, capture_graph
from eigentensor.chain import to_wei
from eigentensor.errors import EigenTensorError, SessionRewound
from eigentensor.graph import Graph
from eigentensor_client import Client
from eigentensor_client.orders import Terms
from eigentensor_client.session import Session

FILE = Path("training.session")
BATCH, BATCHES, STEPS = 150, 10, 10
TERMS = Terms(to_wei("0.05"), exec=60)


def program() -> GraphProgram:
    """One step of Adam on a batch: the network and what the optimizer remembers are states."""
    return capture(stepping(), batch(load()[0], 0), max_repeat=STEPS)


def graph() -> Graph:
    """What `eigentensor optimise client/examples/training.py --tolerance 1e-3 --max-repeat 20` plans."""
    return capture_graph(stepping(), batch(load()[0], 0))


def stepping() -> Callable[[Tensor, Tensor], dict[str, Tensor]]:
    Tensor.manual_seed(7)
    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-2)

    def step(images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = net(images).sparse_categorical_crossentropy(labels).backward()
            return {"loss": loss.realize(*optimizer.schedule_step())}  # of the network before the step, computed once

    return step


def batch(digits: Digits, number: int) -> dict[str, np.ndarray]:
    part = slice(number * BATCH, (number + 1) * BATCH)
    return {"images": digits.images[part], "labels": digits.labels[part].astype(np.int32)}


def session_in(file: Path, client: Client) -> Session:
    """The one of the file, or a new one."""
    if file.exists():
        return client.resume(file)
    graph = program()
    return client.session(graph.program, dict(graph.weights), dict(graph.states), TERMS, file)


def train(client: Client, file: Path = FILE, batches: int = BATCHES, steps: int = STEPS) -> None:
    """Prints the loss after each task. A task whose executor is convicted, even later, is done again."""
    training, _ = load()
    with session_in(file, client) as session:
        while session.step < batches:
            number = session.step
            try:
                result = session.run(batch(training, number), repeat=steps)
            except SessionRewound as rewound:
                print(rewound.what, file=sys.stderr)
                continue
            print(f"{number:2}  loss {result.outputs['loss'].item():.3f}  by {result.executor}  task {result.uuid}")


if __name__ == "__main__":
    try:
        with Client() as client:
            train(client)
    except EigenTensorError as error:
        sys.exit(f"{error.what}\n{error.fix}")
