"""A local chain: anvil, control over its blocks, and a network without a gateway on it."""

import re
import secrets
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import httpx

from eigentensor import economics
from eigentensor.chain import Chain, Goal, Network, Status, carry_out, joining, to_wei
from eigentensor.chain.answers import Refusal
from eigentensor.chain.rpc import Rpc
from eigentensor.errors import ChainError
from eigentensor.task import Order, Signer, order_uuid
from eigentensor.task.candidates import DRAWS
from eigentensor_local import foundry
from eigentensor_local.contracts import deploy

#: What an operator that joins here has by default, in wei and in seats.
STAKE, COLLATERAL, SEATS = to_wei("20"), to_wei("10"), 2
#: EigenLayer's core reads history that a chain of fewer blocks does not have.
FIRST_BLOCK = 2_000
#: The newest blocks that can be taken back.
STATES = 64
_PATIENCE = 30.0  # seconds that it may be silent
_PIECE = 100  # blocks
_HURRY = 0.02  # seconds between two looks at what waits
_LISTENING = re.compile(r"Listening on 127\.0\.0\.1:(\d+)")


def anvil_command(port: int = 0, block_time: float | None = None, first: int = FIRST_BLOCK) -> list[str]:
    """How to start a chain on loopback, at block `first`. Every `block_time` seconds make a block; without, every
    transaction does."""
    mining = ["--block-time", str(block_time)] if block_time else []
    # Linux ends the chain with whoever started it, even if that is killed.
    bound = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    chain = ["--host", "127.0.0.1", "--port", str(port), "--hardfork", "osaka", "--number", str(first)]
    # Else anvil leaves the state after every block, gigabytes in a day, in the home of whoever runs it.
    return [*bound, str(foundry.anvil()), *chain, "--prune-history", str(STATES), *mining]


class Anvil:
    """A running chain, which ends with its `with` block, or with the process that started it at the latest."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self._drain = threading.Thread(target=_drain, args=(process,), daemon=True)
        self._drain.start()
        self.rpc_url = f"http://127.0.0.1:{port}"
        self._rpc = Rpc(self.rpc_url, _PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the chain's process."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._drain.join()

    def mine(self, blocks: int = 1) -> None:
        """Lets blocks pass, in pieces that no request waits long for."""
        for start in range(0, blocks, _PIECE):
            self.rpc("anvil_mine", hex(min(_PIECE, blocks - start)))

    def mine_past(self, block: int) -> None:
        """Lets blocks pass until the newest one is behind `block`."""
        if (missing := block + 1 - self.rpc("eth_blockNumber")) > 0:
            self.mine(missing)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Until the block ends a transaction waits for no clock: what waits gets a block of its own at once."""
        over = threading.Event()

        def hurry() -> None:
            with suppress(httpx.HTTPError, ChainError):  # who sends finds out that the chain is away
                while not over.wait(_HURRY):
                    if int(self.rpc("txpool_status")["pending"], 16):
                        self.mine()

        mining = threading.Thread(target=hurry, name="hurry", daemon=True)
        mining.start()
        try:
            yield
        finally:
            over.set()
            mining.join()

    def rollback(self, blocks: int) -> None:
        """Throws out the newest blocks with their transactions, as a reorganisation does."""
        self.rpc("anvil_rollback", blocks)

    def fund(self, address: str, ether: int = 10) -> None:
        """Gives an account coins for gas."""
        self.rpc("anvil_setBalance", address, hex(ether * 10**18))

    def rpc(self, method: str, *parameters: Any) -> Any:
        """The result of any request, whose parameters are JSON. Raises ChainError for a refusal."""
        try:
            return self._rpc.ask_plainly(method, parameters)
        except Refusal as refusal:
            raise ChainError(f"{method}: {refusal.words}") from None


def start_anvil(port: int = 0, block_time: float | None = None, first: int = FIRST_BLOCK) -> Anvil:
    """Starts a chain, as `anvil_command` says, and returns when it listens; port 0 chooses a free one.

    Raises ChainError if it does not start.
    """
    process = subprocess.Popen(
        anvil_command(port, block_time, first),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    output: deque[str] = deque(maxlen=20)
    for line in process.stdout:
        output.append(line)
        if match := _LISTENING.search(line):
            return Anvil(process, int(match[1]))
    process.stdout.close()
    process.wait()
    reason = "".join(output).strip()
    if port and "in use" in reason:
        raise ChainError(f"the port {port} is taken: {reason}", fix="Name another port; 0 chooses a free one.")
    raise ChainError(f"anvil did not start: {reason}")


@contextmanager
def local_network(operators: Iterable[Signer]) -> Iterator[tuple[Anvil, Network]]:
    """A chain with the contracts, on which these accounts are operators that sign for themselves; without a gateway."""
    with start_anvil() as anvil:
        network = Network("local", anvil.rpc_url, "http://127.0.0.1:9", deploy(anvil.rpc_url))
        for account in operators:
            join(network, account)
        yield anvil, network


def join(
    network: Network,
    account: Signer,
    *,
    signer: str = "",
    stake: int = STAKE,
    collateral: int = COLLATERAL,
    seats: int = SEATS,
) -> None:
    """Makes the account an operator that can accept tasks and be drawn to check them, with tokens minted for it.

    `signer` is the account itself if none is given. Amounts in wei, caps as high as they can be.
    """
    most = (1 << 96) - 1
    with TemporaryDirectory() as journals, Chain(network, account, Path(journals) / "journal.sqlite") as chain:
        chain.token.mint(chain.address, stake + collateral)
        goal = Goal(signer or chain.address, stake, collateral, most, most, seats)
        steps = carry_out(chain, lambda findings: joining(findings, goal, chain.deployment))
        if missing := [step.name for step in steps if step.status is not Status.DONE]:
            raise ChainError(f"{chain.address} could not join: {', '.join(missing)}")


def pass_seed(anvil: Anvil, chain: Chain, order: Order, *, drawn: bool) -> None:
    """Lets blocks pass to the seed block of a task that was just committed, until its draw comes out as wished: if
    `drawn`, each operator with seats is drawn, too.

    The account of `chain` records the seed. Nothing else may have happened since the commit.
    """
    task = order_uuid(order, chain.deployment.domain)
    seed, seats = chain.market.seed_block_of(task), chain.market.task_at(task).seats
    holders = [chain.stake.seat_at(place).operator for place in range(seats)]
    while True:
        before = anvil.rpc("evm_snapshot")
        anvil.mine_past(seed - 1)
        mix = anvil.rpc("eth_getBlockByNumber", hex(seed), False)["mixHash"]
        places = (economics.seat_of(mix, task, index, seats) for index in range(DRAWS * order.verifiers))
        is_drawn = economics.is_drawn(mix, task, order.check_rate)
        if is_drawn is drawn and (not drawn or {holders[place] for place in places} == set(holders)):
            break
        anvil.rpc("evm_revert", before)
        anvil.rpc("anvil_setCoinbase", "0x" + secrets.token_hex(20))  # makes other blocks, whatever the time
    chain.market.seed(seed)


def _drain(process: subprocess.Popen[str]) -> None:
    """Reads what a chain says, so that it never waits for a full pipe."""
    assert process.stdout is not None
    with process.stdout as output:
        for _ in output:
            pass
