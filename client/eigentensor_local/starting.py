"""A local network for one command, where none runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from eigentensor.chain.network import DEFAULT, network_path
from eigentensor_client.accounts import running
from eigentensor_client.screen import Screen
from eigentensor_local.devnet import devnet
from eigentensor_local.processes import ended_by_signals

OPERATORS = 2  # who executes is checked by the other
BLOCK_TIME = 0.5


@contextmanager
def local_network(screen: Screen, *, keep: bool = False) -> Iterator[bool]:
    """Starts the network `local` if it does not run, and says so; true if it did.

    It ends with the block; with `keep` it goes on after the block until Ctrl-C. Raises ProcessDied.
    """
    if running(network_path(DEFAULT)) is not None:
        yield False
        return
    with ended_by_signals(), ExitStack() as stack:
        with screen.work() as bar:
            bar(f"no local network runs: starting one, with its chain, contracts, aggregator and {OPERATORS} operators")
            net = stack.enter_context(devnet(OPERATORS, block_time=BLOCK_TIME))
        yield True
        if keep:
            screen.say("the local network goes on until Ctrl-C: other commands find it meanwhile")
            net.processes.wait(chain=net.anvil.process)
        screen.say("ending the local network; `eigentensor devnet` in another terminal keeps one for many tasks")
