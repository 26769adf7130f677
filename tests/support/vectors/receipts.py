"""Writes vectors/receipts.json: a receipt of each story, from a local chain, for whatever needs no chain to read one.

Every chain has other blocks: the file is written anew only when the format of receipts changes.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eigentensor.chain import Chain, anvil_account, to_wei
from eigentensor.economics import WAD
from eigentensor.receipt import Receipt, read
from eigentensor_local.anvil import local_network
from support.stories.game_table import CLIENT, OPERATORS
from support.stories.market import Life, orders_of
from support.stories.receipts import OUTPUTS, STATES, STORIES, silent

VECTORS = Path(__file__).parents[2] / "vectors" / "receipts.json"


def load() -> dict[str, Receipt]:
    """The committed receipts by the names of their stories."""
    return {name: Receipt.from_bytes(text.encode()) for name, text in json.loads(VECTORS.read_text()).items()}


def written() -> Iterator[tuple[str, Any]]:
    with local_network(map(anvil_account, OPERATORS)) as (anvil, network):
        for story in STORIES:
            with ExitStack() as stack, TemporaryDirectory() as folder:
                client, operator, *verifiers = (
                    stack.enter_context(Chain(network, anvil_account(n), Path(folder, f"{n}.sqlite")))
                    for n in (CLIENT, *OPERATORS)
                )
                snapshot = anvil.rpc("evm_snapshot")
                client.token.mint(client.address, to_wei("10"))
                client.token.approve(network.deployment.task_market, to_wei("10"))
                life = Life(anvil, client, operator, orders_of(client)(check_rate=WAD))
                story(life, verifiers)
                parts = None if story is silent else (OUTPUTS, STATES)
                yield story.__name__, read(client, life.order, parts).to_bytes().decode()
                anvil.rpc("evm_revert", snapshot)


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(dict(written()), indent=0) + "\n")
