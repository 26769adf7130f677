"""An endpoint of paid calls that is killed at any moment: no two receipts contradict each other, and what was answered
is on disk."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from eigentensor import merkle
from eigentensor.channel import Key, channel_of
from eigentensor.channel.calls import Payment
from eigentensor.channel.deals import CallReceipt
from eigentensor_operator.calls.ledger import Ledger
from support.stories.calls import DOMAIN, HttpClient, Programs, offered, ones, programs

ROOT = Path(__file__).parents[2]


class Killed:
    """An endpoint that is killed and started again, over the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Its URL."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
        command = [sys.executable, "-m", "support.stories.calls", str(self.folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        assert self.process.stdout is not None
        url = self.process.stdout.readline().strip()
        assert url, "it did not start"
        return url

    def kill(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class Caller:
    """A client that sends what was not answered again, until it is."""

    def __init__(self, seed: int, made: Programs) -> None:
        self.made = made
        self.client = HttpClient(httpx.Client(), Key(bytes([seed]) * 32), offered(made.listed), made)
        self.waiting: Payment | None = None
        self.receipts: dict[int, CallReceipt] = {}
        self.sent = 0

    def run(self, url: str, until: threading.Event) -> None:
        """Calls until the endpoint is gone, or it is time."""
        work, program = self.client.computation(), self.made.served["scaling"].program
        with httpx.Client(base_url=url, timeout=60) as self.client.http:
            while not (until.is_set() and self.receipts):
                x = {"x": ones(self.client.payer.count % 7)}
                if self.waiting is None:
                    self.waiting = self.client.payment(work, x, salt=self.client.payer.count)
                try:
                    response = self.client.post(work, self.waiting, x)
                except httpx.TransportError:
                    return
                self.client.receive(response, program)
                self.waiting = None
                receipt = self.client.responses[-1].receipt
                assert self.receipts.setdefault(receipt.index, receipt) == receipt

    def check(self, ledger: Ledger) -> None:
        """What was answered is in the ledger, and nothing else stands where it stands."""
        channel = channel_of(DOMAIN, self.client.deal)
        leaves = ledger.leaves(channel)
        assert len(self.receipts) <= len(leaves) <= len(self.receipts) + 1
        assert merkle.tree_root(leaves[: self.client.payer.count]) == self.client.payer.frontier.root()
        for index, receipt in self.receipts.items():
            call = ledger.call(channel, index)
            assert call is not None and call.receipt == receipt and ledger.blob(call.payment.inputs)


def crash(folder: Path, kills: int, seed: int) -> None:
    source = random.Random(seed)
    names = programs(folder, is_warm=False)
    callers = [Caller(key, names) for key in (0x22, 0x33)]
    endpoint = Killed(folder)
    for number in range(kills + 1):
        url, until = endpoint.start(), threading.Event()
        threads = [threading.Thread(target=caller.run, args=[url, until]) for caller in callers]
        for thread in threads:
            thread.start()
        time.sleep(source.uniform(0, 0.3) if number < kills else 0.5)
        if number < kills:
            endpoint.kill()
        else:
            until.set()
        for thread in threads:
            thread.join()
        if number == kills:
            endpoint.kill()
        ledger = Ledger(folder / "calls.sqlite")
        for caller in callers:
            caller.check(ledger)
        ledger.close()
    assert all(caller.waiting is None and caller.receipts for caller in callers)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_endpoint_that_is_killed_goes_on_as_it_was(tmp_path: Path) -> None:
    crash(tmp_path, 1, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("seed", range(20))
def test_an_endpoint_that_is_killed_often_goes_on_as_it_was(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, 10, seed)
