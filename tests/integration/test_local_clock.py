"""A local chain's blocks come with its clock, and with nothing else: what counts blocks as time counts right."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from tinygrad import Tensor

import eigentensor as et
from eigentensor.chain.keys import ANVIL_KEYS
from eigentensor.errors import ChainError
from eigentensor.program.codec import encode
from eigentensor.store import load_safetensors, save_safetensors
from eigentensor_local.anvil import Anvil, start_anvil
from eigentensor_local.devnet import Devnet, devnet
from support.programs.worked_examples import layer
from support.web3 import web3_of


def sent(anvil: Anvil, nonce: int) -> HexBytes:
    """The hash of a transaction that the chain has taken."""
    nobody = to_checksum_address("0x" + "11" * 20)
    fields = {"chainId": 31337, "nonce": nonce, "to": nobody, "value": 1, "gas": 21_000, "gasPrice": 10**10}
    return web3_of(anvil).eth.send_raw_transaction(Account.sign_transaction(fields, ANVIL_KEYS[0]).raw_transaction)


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ChainError, match=f"the port {port} is taken") as raised:
            start_anvil(port)
    assert raised.value.fix == "Name another port; 0 chooses a free one."


def test_a_transaction_waits_for_the_clock_but_where_the_chain_hurries() -> None:
    with start_anvil(block_time=3600) as anvil:
        first = web3_of(anvil).eth.block_number
        sent(anvil, 0)
        assert web3_of(anvil).eth.block_number == first
        with anvil.hurried():
            for nonce in (1, 2):
                made = sent(anvil, nonce)
                web3_of(anvil).eth.wait_for_transaction_receipt(made, timeout=30, poll_latency=0.02)
        now = web3_of(anvil).eth.block_number
        assert first < now
        sent(anvil, 3)
        assert web3_of(anvil).eth.block_number == now
        assert int(anvil.rpc("txpool_status")["pending"], 16) == 1


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    """As `eigentensor devnet` starts it."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("EIGENTENSOR_")]:
            patch.delenv(name)
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        patch.setenv("EIGENTENSOR_CACHE_DIR", str(home / "blobs"))
        with devnet(3, path=home / "network.json") as net:
            yield net


def mapped(net: Devnet, count: int) -> list[Any]:
    @et.function(max_price="0.05", wait="result", network=str(net.path))
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    rows = [Tensor([float(number)] * 4, device="CPU") for number in range(count)]
    return [y if isinstance(y, Exception) else y.tolist() for y in doubled.map(rows, return_exceptions=True)]


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.timeout(900))])
def test_a_map_over_a_stock_network_brings_every_result(net: Devnet, count: int) -> None:
    assert mapped(net, count) == [[2.0 * number] * 4 for number in range(count)]


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_many_runs_of_one_account_at_once_have_a_result_each(net: Devnet, tmp_path: Path) -> None:
    example, runs = layer(), 25
    (tmp_path / "layer.program").write_bytes(encode(example.program))
    words = [sys.executable, "-m", "eigentensor_client", "run", "layer.program", "--wait", "result", "--exec", "60"]
    tensors = {name: np.array(array) for name, array in example.tensors.items()}
    np.save(tmp_path / "x.npy", tensors.pop("x"))
    save_safetensors(tmp_path / "weights.safetensors", tensors)
    words += ["-i", "x=@x.npy", "-w", "weights.safetensors"]
    words += ["--network", str(net.path), "--accept-within", "1000"]
    running = [
        subprocess.Popen([*words, "-o", f"{n}.safetensors"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for n in range(runs)
    ]
    errors = [process.communicate(timeout=1_200)[1] for process in running]
    assert [process.returncode for process in running] == [0] * runs, errors
    results = {
        tuple(a.tobytes() for a in load_safetensors(tmp_path / f"{n}.safetensors").values()) for n in range(runs)
    }
    assert len(results) == 1
