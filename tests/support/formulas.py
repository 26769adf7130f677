"""Contracts of contracts/test that only compute: built, and put onto a chain of their own."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eigentensor.chain.contracts import function_of
from eigentensor_local.anvil import start_anvil
from eigentensor_local.foundry import CONTRACTS, forge

#: The results of a contract's function `evaluate` for its arguments.
Evaluate = Callable[..., list[Any]]


def built(name: str) -> Any:
    """What forge makes of a contract: its `abi`, its `deployedBytecode`."""
    subprocess.run([forge(), "build", f"test/{name}.sol"], cwd=CONTRACTS, check=True, capture_output=True)
    return json.loads((CONTRACTS / "out" / f"{name}.sol" / f"{name}.json").read_text())


@contextmanager
def evaluating(name: str) -> Iterator[Evaluate]:
    """The function `evaluate` of a contract."""
    contract, address = built(name), "0x" + "7e" * 20
    function = function_of(contract["abi"], "evaluate")
    with start_anvil() as anvil:
        anvil.rpc("anvil_setCode", address, contract["deployedBytecode"]["object"])

        def evaluate(*arguments: Any) -> list[Any]:
            call = {"to": address, "data": "0x" + function.data(arguments).hex()}
            return list(function.values(anvil.rpc("eth_call", call, "latest")))

        yield evaluate
