"""An operator put together: settings in, a running daemon with its node API out."""

import logging
import os
import signal
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from types import FrameType

import structlog

from eigentensor import traces
from eigentensor.chain import Chain, Network
from eigentensor.chain.units import GWEI
from eigentensor.errors import ConfigError
from eigentensor.runtime.sandbox.execution import available
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.talk import QUIET
from eigentensor.task import Signer
from eigentensor_operator.alarms import HINDERING
from eigentensor_operator.batches.drawing import OwnDraws
from eigentensor_operator.batches.fetching import Sources
from eigentensor_operator.batches.running import Running
from eigentensor_operator.batches.steps import Steps as BatchSteps
from eigentensor_operator.batches.store import BatchStore
from eigentensor_operator.calls.server import call_server, call_service
from eigentensor_operator.config import Settings
from eigentensor_operator.daemon import Daemon
from eigentensor_operator.data import Shelf
from eigentensor_operator.device import Device, device_of
from eigentensor_operator.metrics import AVS, Metrics
from eigentensor_operator.node import NodeServer, Service, Status, node_app
from eigentensor_operator.policy import Policy
from eigentensor_operator.steps import Steps
from eigentensor_operator.store import Store


def serve(settings: Settings) -> None:
    """Runs an operator until SIGTERM or SIGINT. Raises ConfigError, ChainError, NoSandbox before it begins, and
    ExecutionError if its device fails the self-test, when nothing is at stake any more."""
    configure_logs(settings)
    traces.begin("operator")
    os.umask(0o077)  # a salt that others can read hides nothing
    log = structlog.get_logger()
    network = Network.load(settings.network)
    account = settings.account()
    operator = settings.address or account.address
    policy = settings.policy(operator, network)
    if not settings.unsafe_no_sandbox:
        available()
    unsafe, token = settings.unsafe_no_sandbox, settings.cluster_token
    device = device_of(settings.device, settings.max_memory, unsafe=unsafe, token=token)
    with ExitStack() as held:
        chain = Chain(
            network, account, settings.data_dir / "transactions.sqlite",
            patience=max(10.0, 3 * settings.block_seconds), deadline=max(60.0, 10 * settings.block_seconds),
            max_fee=int(settings.max_fee_gwei * GWEI),
        )  # fmt: skip
        held.callback(chain.journal.close)
        store = held.enter_context(closing(Store(settings.journal)))
        if not store.belongs_to(network.deployment.task_market, operator):
            raise ConfigError(
                f"{settings.data_dir} belongs to another operator or market",
                fix="Choose another folder with --data-dir.",
            )
        store.device = device.name
        blobs = LocalStore(settings.data_dir / "blobs")
        gateway = held.enter_context(closing(GatewayClient(network.gateway_url, blobs, limit=settings.max_memory)))
        metrics = Metrics(network.deployment.token_symbol)
        key = settings.call_signer(account) if settings.calls else None
        batches, url = batches_of(held, settings, key, chain, gateway, device, policy, metrics)
        policy = replace(policy, calls=url)
        steps = Steps(chain, gateway, device, Shelf(settings.data_dir / "results"), policy, settings.drain_file)
        daemon = Daemon(
            chain, store, steps, policy, metrics, settings.drain_file, settings.poll,
            lambda: log.info(
                "ready", operator=operator, signer=account.address, network=network.name, node_port=node.port
            ),
            batches,
        )  # fmt: skip
        metrics.score.labels(AVS).set(100)  # nothing accepted, nothing missed
        stands_on = chain.journal.is_well, store.is_well, settings.data_dir.is_dir
        app = node_app(lambda: services_of(daemon, device.name), metrics, stands_on)
        node = NodeServer(app, settings.host, settings.port)
        held.callback(node.stop)

        def end(number: int, _: FrameType | None) -> None:
            log.info("ending", signal=signal.Signals(number).name)
            daemon.stop()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        log.info("started", operator=operator, node_port=node.port)
        try:
            daemon.run()
        finally:
            log.info("ended")


def batches_of(
    held: ExitStack, settings: Settings, key: Signer | None, chain: Chain, gateway: GatewayClient, device: Device,
    policy: Policy, metrics: Metrics,
) -> tuple[Running, str]:  # fmt: skip
    """Batches of paid calls, which `held` ends, and the URL at which calls are served; empty where none are:
    without a `key` that signs receipts."""
    operator, domain, calls = policy.operator, chain.deployment.channels_domain, None
    if key is not None:
        delay = chain.stake.stake_delay()
        calls = held.enter_context(call_service(settings, chain.network, operator, key, gateway, device, delay))
    sources = held.enter_context(closing(Sources(gateway, domain, chain.account)))
    hands = BatchSteps(chain, calls, sources, device, settings.drain_file, operator)
    journal = held.enter_context(closing(BatchStore(settings.batches)))
    batches = Running(chain, journal, hands, policy, metrics, calls)
    if calls is None:
        return batches, ""
    draws = OwnDraws(chain, lambda: batches.batches)
    served = call_server(settings, chain.network, calls, gateway.store, draws)
    held.callback(served.stop)
    url = settings.calls_url or f"http://{settings.calls_address[0]}:{served.port}"
    structlog.get_logger().info("calls", url=url)
    return batches, url


def services_of(daemon: Daemon, device: str) -> list[Service]:
    """What the node API reports of a daemon."""
    monitor = daemon.monitor
    trusted = Status.UP if daemon.operator.faulty is None else Status.DOWN
    trusted = Status.INITIALIZING if daemon.operator.testing else trusted
    backed = Status.DOWN if HINDERING & monitor.alarms.keys() else Status.UP
    in_time = Status.DOWN if monitor.is_pressed else Status.UP
    return [
        Service("chain-rpc", "Chain", "Reads events, sends transactions", daemon.chain_pulse.status),
        Service("blob-store", "Gateway", "Inputs in, results out", daemon.gateway_pulse.status, vital=False),
        Service("device-0", f"Device {device}", "Executes programs", trusted),
        Service("stake", "Stake", "; ".join(monitor.alarms.values()) or "Backs tasks and seats", backed, vital=False),
        Service("clocks", "Clocks", "Moves and demanded leaves in time", in_time, vital=False),
    ]


def configure_logs(settings: Settings) -> None:
    """One line for each step, to stderr; below warnings nothing of the libraries, and nothing at all if quiet."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING if QUIET.get() else logging.NOTSET),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
