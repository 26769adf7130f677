"""The demo to look at: the pages of a local network on which a lie is planted, until Ctrl-C."""

import webbrowser
from contextlib import ExitStack

import numpy as np

from eigentensor_client.client import Client
from eigentensor_client.orders import Work
from eigentensor_local.demo import Show, begin, convict, meanwhile

SIZE = 32  #: of the matrices that are multiplied: their sums are long enough for a game with many moves


def exhibit(show: Show, *, opens: bool) -> None:
    """Starts a network, says where its pages are, plants a lie, and shows them until Ctrl-C. With `opens` a browser
    opens on the dispute as soon as there is one."""
    with ExitStack() as stack:
        working = meanwhile(_work)
        with show.part("1  A local network with two operators, of which one lies"):
            # Nobody else may answer once the honest one has: the executor's reveal need not wait for the window's end.
            net = begin(show, stack, operators=2, liars=1)
            show.say(f"look at it: {net.network.gateway_url}")

        def see(game: int) -> None:
            page = f"{net.network.gateway_url}/games/{game}"
            show.say(f"look at it: {page}", "")
            if opens:
                webbrowser.open(page)

        with show.part("2  An operator reveals one wrong bit"), Client(net.network) as client:
            *honest, liar = net.operators
            convict(show, client, liar, honest, working.result(), see)
        show.say(f"{net.network.gateway_url} stays until Ctrl-C, which ends everything")
        net.processes.wait(chain=net.anvil.process)


def _work() -> Work:
    """A layer on numbers that are always the same."""
    from eigentensor import TensorContext  # tinygrad looks for its cache when it is imported

    context, random = TensorContext(), np.random.default_rng(26)
    shapes = {"x": (SIZE, SIZE), "weight": (SIZE, SIZE), "bias": (SIZE,)}
    x, weight, bias = (context.add_graph_input(name, shape) for name, shape in shapes.items())
    graph = context.compile_to_graph((x @ weight + bias).relu())
    inputs = {name: (random.integers(-64, 64, shape) / 32).astype(np.float32) for name, shape in shapes.items()}
    return Work(graph.program, inputs)
