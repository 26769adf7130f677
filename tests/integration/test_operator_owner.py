"""An owner's process, killed or interrupted at each message that it announces: the chain shows each message once."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from eth_utils.address import to_checksum_address

from eigentensor.chain import Chain, to_wei
from eigentensor.chain.survey import survey
from eigentensor_local.devnet import Devnet, Party
from support.stories.daemons import network_of
from support.web3 import web3_of

ANNOUNCED = (
    "registerAsOperator for operator", "approve for stake", "depositIntoStrategy for stake",
    "modifyAllocations for allocation", "registerForOperatorSets for operator set", "setSigner for signer",
    "approve for collateral", "deposit for collateral", "enlist for seats",
)  # fmt: skip
LEAVING = (
    "deregisterFromOperatorSets for operator set", "modifyAllocations for allocation", "withdraw for balance",
    "setSigner for signer", "queueWithdrawals for stake",
)  # fmt: skip


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with network_of(tmp_path_factory.mktemp("network") / "owner.json") as net:
        yield net


@pytest.mark.slow
def test_an_owner_killed_at_every_message_sends_each_once(net: Devnet) -> None:
    newcomer = net.party("killed")
    environment = owner_environment(net, newcomer)
    command = owner_command(newcomer, "up")
    for line in ANNOUNCED:
        running = net.processes.start("up", command, environment, ready=line)
        running.wait_ready()
        running.kill()
    net.processes.start("up", command, environment)
    net.processes.finish("up")
    assert web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(newcomer.owner.address)) == len(ANNOUNCED)
    with Chain(net.network, newcomer.owner, newcomer.folder / "looking.sqlite") as chain:
        s = survey(chain, newcomer.address)
        assert (s.stake, s.balance + s.collateral, s.seats, s.is_member) == (to_wei("10"), to_wei("10"), 10, True)


@pytest.mark.slow
@pytest.mark.parametrize("line", ANNOUNCED)
def test_an_owner_interrupted_at_a_message_of_up_goes_on_by_the_same_command(net: Devnet, line: str) -> None:
    newcomer = net.party(f"up-{ANNOUNCED.index(line)}")
    interrupt(net, newcomer, "up", line)
    net.processes.start("owner", owner_command(newcomer, "up"), owner_environment(net, newcomer))
    net.processes.finish("owner")
    assert web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(newcomer.owner.address)) == len(ANNOUNCED)
    with Chain(net.network, newcomer.owner, newcomer.folder / "looking.sqlite") as chain:
        assert survey(chain, newcomer.address).seats == 10


@pytest.mark.slow
@pytest.mark.parametrize("line", LEAVING)
def test_an_owner_interrupted_at_a_message_of_leave_goes_on_by_the_same_command(net: Devnet, line: str) -> None:
    leaver = net.party(f"leave-{LEAVING.index(line)}")
    net.join(leaver)
    before = web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(leaver.owner.address))
    interrupt(net, leaver, "leave", line)
    running = net.processes.start("owner", owner_command(leaver, "leave"), owner_environment(net, leaver))
    assert running.wait(60) == 9  # EigenLayer's delays
    assert web3_of(net.anvil).eth.get_transaction_count(to_checksum_address(leaver.owner.address)) == before + len(
        LEAVING
    )
    with Chain(net.network, leaver.owner, leaver.folder / "looking.sqlite") as chain:
        f = survey(chain, leaver.address)
        assert (f.is_member, f.balance, len(f.withdrawals)) == (False, 0, 1)


def owner_command(owner: Party, verb: str) -> list[str]:
    amounts = ["--signer", owner.signer.address, "--stake", "10", "--collateral", "10"]
    words = amounts if verb == "up" else ["--withdraw"]
    return [sys.executable, "-m", "eigentensor_client", "operator", verb, *words]


def owner_environment(net: Devnet, owner: Party) -> dict[str, str]:
    return net.environment(owner.folder, {
        "EIGENTENSOR_OPERATOR_DATA_DIR": owner.folder,
        "EIGENTENSOR_OPERATOR_KEYSTORE": owner.folder / "owner.json",
        "EIGENTENSOR_OPERATOR_PASSWORD_FILE": owner.folder / "password",
    })  # fmt: skip


def interrupt(net: Devnet, owner: Party, verb: str, line: str) -> None:
    """Ctrl-C when that message is announced."""
    running = net.processes.start("owner", owner_command(owner, verb), owner_environment(net, owner), ready=line)
    running.wait_ready()
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(60) == 130
    assert "run the same again" in running.tail() and "Traceback" not in running.tail()
