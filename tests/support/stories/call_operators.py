"""Operators of paid calls on a real chain, each a daemon in a thread: one serves calls, others check its shares."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from eigentensor import merkle
from eigentensor.chain import Chain, Mined, to_wei
from eigentensor.channel import Key, Offer, batch_of, events, hash_of, is_signed_by, message_of, task_of, x402
from eigentensor.channel.calls import Computation, DealRequest, Payment, Quotes, SignedDeal, SignedVoucher
from eigentensor.channel.life import BatchLife, CallDemand
from eigentensor.channel.payer import Payer
from eigentensor.economics import WAD
from eigentensor.errors import BlobNotFound
from eigentensor.program import Role, encode
from eigentensor.program.binding import Results
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor_operator.batches.drawing import OwnDraws
from eigentensor_operator.batches.fetching import Sources
from eigentensor_operator.batches.running import Running
from eigentensor_operator.batches.showing import Shown
from eigentensor_operator.batches.steps import Steps as BatchSteps
from eigentensor_operator.batches.store import BatchStore
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.ledger import Ledger
from eigentensor_operator.calls.routes import Where, calls_app
from eigentensor_operator.calls.service import CallService, Rules
from eigentensor_operator.daemon import Daemon
from eigentensor_operator.data import Shelf
from eigentensor_operator.device import Device
from eigentensor_operator.metrics import AVS, Metrics
from eigentensor_operator.node import NodeServer
from eigentensor_operator.policy import Policy
from eigentensor_operator.steps import Steps
from eigentensor_operator.store import Store
from support.stories.calls import ELEMENTS, Programs, ones, scaling

PRICE = to_wei("0.0001")
PATIENCE = 180.0  # seconds
PAYER = Key(b"\x22" * 32)


class Wrong:
    """An execution of which one element is off in some calls."""

    def __init__(self, execution: Any, calls: frozenset[int]) -> None:
        self._execution, self._calls, self._count = execution, calls, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._execution, name)

    async def execute_all_async(self, *arguments: Any) -> list[Results]:
        return [self._wrong(results) for results in await self._execution.execute_all_async(*arguments)]

    def _wrong(self, results: Results) -> Results:
        self._count += 1
        if self._count - 1 not in self._calls:
            return results
        outputs = {name: array.copy() for name, array in results.outputs.items()}
        next(iter(outputs.values())).reshape(-1)[3] += 1
        return replace(results, outputs=outputs)


class Lax(CallService):
    """Executes what its offer does not allow."""

    def quoted(self, channel: bytes, computation: Computation) -> tuple[ServedProgram, int]:
        served = self._programs[computation.program, computation.weights]
        return served, served.price * computation.repeat


class Hiding(CallService):
    """Gives out no inputs of `scaling` that are twos."""

    def blob(self, root: bytes) -> bytes:
        if root == merkle.role_root(scaling(), Role.INPUT, {"x": ones(2)}):
            raise BlobNotFound("it is kept for nobody")
        return super().blob(root)


class Mean(BatchSteps):
    """Shows calls that are demanded, but no leaf of their inputs."""

    def _show_call(self, life: BatchLife, shown: Shown, demand: CallDemand, closed: set[CallDemand]) -> Mined | None:
        return None if demand.leaves else super()._show_call(life, shown, demand, closed)


@dataclass
class Operator:
    """A daemon that runs, and what it runs on."""

    chain: Chain
    daemon: Daemon
    running: Running
    folder: Path
    metrics: Metrics
    service: CallService | None = None
    url: str = ""

    @property
    def games(self) -> float:
        """How many games it says that it plays."""
        return self.metrics.registry.get_sample_value("et_games_open", {"avs_name": AVS}) or 0

    def life(self, batch: bytes) -> BatchLife | None:
        return self.running.batches.pools.batches.get(batch)


@dataclass
class Street:
    """Where operators meet: a gateway, and a folder for each of them."""

    gateway: str
    folder: Path
    parties: list[Operator] = field(default_factory=list)

    def policy(self, chain: Chain, url: str) -> Policy:
        d = chain.deployment
        alone = merkle.operators_root([bytes.fromhex(chain.address[2:])])
        return Policy(
            chain.address,
            d.parameters,
            d.domain,
            block_seconds=1.0,
            operations_per_second=1e9,
            bytes_per_second=1e8,
            calls=url,
            alone=alone,
        )

    @contextmanager
    def operating(
        self, chain: Chain, offer: Offer | None = None, made: Programs | None = None, key: Key | None = None,
        listed: Mapping[bytes, int] | None = None,
        *, silent: bool = False, service_of: type[CallService] = CallService, steps_of: type[BatchSteps] = BatchSteps,
    ) -> Iterator[Operator]:  # fmt: skip
        """A daemon until the block ends; with an offer it serves calls. `silent`: its shares are served to nobody."""
        folder = self.folder / chain.address
        folder.mkdir(exist_ok=True)
        domain = chain.deployment.channels_domain
        with ExitStack() as stack:
            store = LocalStore(folder / "blobs")
            gateway = GatewayClient(self.gateway, store, attempts=1)
            stack.callback(gateway.close)
            service = None
            if offer is not None and made is not None and key is not None:
                ledger = Ledger(folder / "calls.sqlite")
                stack.callback(ledger.close)
                rules, served = Rules(opening=1000), list(made.served.values())
                parameters = chain.deployment.parameters
                service = service_of(domain, parameters, key, ledger, LocalStore(folder / "shelf"), served, rules)
                stack.callback(service.close)
                service.offer(offer, listed or made.listed)
                for one in made.served.values():  # as whoever starts an operator gives it its programs
                    gateway.upload(store.path(store.put(encode(one.program))))
            device, sources = Device(1 << 28), Sources(gateway, domain, chain.account)
            stack.callback(sources.close)
            batches: list[Running] = []
            url, server = "", None
            if service is not None:
                where = Where(domain, chain.deployment.token, 10, store)
                draws = OwnDraws(chain, lambda: batches[0].batches)
                server = NodeServer(calls_app(service, where, draws), "127.0.0.1", 0, service.loop)
                stack.callback(server.stop)
                url = f"http://127.0.0.1:{server.port}"
            policy = self.policy(chain, "http://127.0.0.1:9" if silent else url)
            drain, metrics = folder / "draining", Metrics(chain.deployment.token_symbol)
            hands = steps_of(chain, service, sources, device, drain, chain.address)
            running = Running(chain, BatchStore(folder / "batches.sqlite"), hands, policy, metrics, service)
            batches.append(running)
            stack.callback(running.close)
            journal = Store(folder / "operator.sqlite")
            stack.callback(journal.close)
            steps = Steps(chain, gateway, device, Shelf(folder / "results"), policy, drain)
            daemon = Daemon(chain, journal, steps, policy, metrics, drain, 0.05, lambda: None, running)
            thread = threading.Thread(target=daemon.run, daemon=True)
            thread.start()

            def end() -> None:
                daemon.stop()
                thread.join(30)

            stack.callback(end)
            operator = Operator(chain, daemon, running, folder, metrics, service, url)
            self.parties.append(operator)
            yield operator


def until(is_so: Callable[[], Any], what: str, *parties: "Operator") -> None:
    """Waits; says what did not come, and what the operators were about."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        about = [(one.running.batches.desks, one.running.batches.cases, one.running.batches.at) for one in parties]
        assert time.monotonic() < end, f"{what}: {about}"
        time.sleep(0.05)


def offered(chain: Chain, key: Key, listed: Mapping[bytes, int], **change: Any) -> Offer:
    """Terms of calls that are all checked, by one verifier."""
    values: dict[str, Any] = {
        "operator": chain.address, "signer": key.address, "nonce": 1, "max_price": PRICE, "check_price": PRICE // 2,
        "most": 1000 * PRICE, "risk_each": 0, "risk_all": 0, "check_rate": WAD, "verifiers": 1, "exec": 40,
        "epoch": 40, "tail": 4, "programs": merkle.programs_root(listed),
    }  # fmt: skip
    return Offer(**values | change)


class HttpCaller:
    """A client with one channel at an operator of which it knows no more than the URL."""

    def __init__(self, chain: Chain, url: str) -> None:
        self.chain, self.domain = chain, chain.deployment.channels_domain
        self.http = httpx.Client(base_url=url, timeout=30)
        quote = Quotes.from_json(self._taken("GET", "/v1/deals").json()).quotes[0]
        self.offer, self.pool, self.price = quote.offer, quote.pool, quote.programs[0].price
        self.work = Computation(next(one.program for one in quote.programs))
        request = DealRequest(self.pool, chain.address, PAYER.address, 500 * self.price)
        self.signed = SignedDeal.from_json(self._taken("POST", "/v1/deals", json=request.to_json()).json())
        self.payer = Payer.of(self.domain, self.offer, self.signed.deal, 0)

    def moved(self, url: str) -> None:
        """The operator serves elsewhere now."""
        self.http.close()
        self.http = httpx.Client(base_url=url, timeout=30)

    def close(self) -> None:
        self.http.close()

    def _taken(self, method: str, path: str, **options: Any) -> httpx.Response:
        """What is answered, as soon as calls are served at all."""
        end = time.monotonic() + PATIENCE
        while True:
            response = self.http.request(method, path, **options)
            if response.status_code not in (404, 410, 503):
                assert response.status_code == 200, response.text
                return response
            assert time.monotonic() < end, response.text
            time.sleep(0.1)

    def open(self, deposit: int) -> None:
        """Opens the channel, and waits until it is known."""
        self.chain.channels.open(self.offer, self.signed.deal, self.signed.signature, deposit)
        self.payer = self.payer.funded(deposit)
        self._taken("GET", f"/v1/channels/{self.payer.channel.hex()}")

    def call(self, value: float, repeat: int = 1) -> None:
        """One paid call of `scaling`, as soon as a batch takes it."""
        x, work = {"x": ones(value)}, replace(self.work, repeat=repeat)
        root = merkle.role_root(scaling(), Role.INPUT, x)
        order = work.order(self.signed.deal, self.payer.channel, self.payer.next, 7, root)
        after, voucher = self.payer.called(task_of(self.domain, order), self.price * repeat)
        payment = Payment(7, root, voucher, PAYER.sign(message_of(self.domain, voucher)))
        headers = {x402.SIGNATURE: x402.signature(payment, {"scheme": x402.SCHEME})}
        path, query = f"/v1/channels/{self.payer.channel.hex()}/calls", tuple(work.query())
        response = self._taken("POST", path, params=query, content=dump_safetensors(x), headers=headers)
        answer = x402.read_response(response.headers[x402.RESPONSE])
        outputs = {name: array for name, (_, array) in parse_flat(response.content).items()}
        assert outputs["y"].shape == (ELEMENTS,) and outputs["y"].dtype == np.float32
        self.payer = after.received(answer, answer.receipt.outputs_root)

    def conclude(self) -> None:
        """Has the operator sign the last voucher, and sends it nowhere."""
        last = self.payer.last()
        signed = SignedVoucher(last, PAYER.sign(message_of(self.domain, last)))
        path = f"/v1/channels/{self.payer.channel.hex()}/conclusion"
        theirs = SignedVoucher.from_json(self._taken("POST", path, json=signed.to_json()).json())
        assert theirs.voucher == last and is_signed_by(self.offer.signer, hash_of(self.domain, last), theirs.signature)

    def batch(self, number: int) -> bytes:
        return batch_of(self.pool, number)


def of_kind(chain: Chain, kind: type[events.BatchEvent], batch: bytes) -> list[Any]:
    """The events of one kind about a batch."""
    happened = chain.history.calls(max(0, chain.node.block_number() - 1500))
    return [event for event in happened if isinstance(event, kind) and event.batch == batch]
