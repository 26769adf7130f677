"""Prometheus metrics, every series there from the start."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from eigentensor.channel import BatchState
from eigentensor.channel.due import BatchVerb
from eigentensor.task import State
from eigentensor.task.due import Verb

OUTCOMES = ("mined", "refused", "failed")
DIRECTIONS = ("in", "out")
FOUND = ("well", "fetched", "lost")


class Metrics:
    """One registry per app, so that several can live in one process. `acts` and `verdicts` are the watcher's."""

    def __init__(self, acts: Iterable[str], verdicts: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        self.tasks = Gauge("et_tasks", "Tasks by state", ["state"], registry=self.registry)
        self.batches = Gauge("et_batches", "Batches of paid calls by state", ["state"], registry=self.registry)
        self.channels = Gauge("et_channels_open", "Channels that are open", registry=self.registry)
        self.games = Gauge("et_games_open", "Games that are being played", registry=self.registry)
        self.looks = Counter("et_looks", "Results re-executed by verdict", ["verdict"], registry=self.registry)
        self.bonds = Gauge("et_bonds_wei", "Wei of the watcher's bonds in open games", registry=self.registry)
        self.short = Gauge(
            "et_clocks_short", "Own turns with less than a third of the clock left", registry=self.registry
        )
        self.capped = Gauge("et_fee_capped", "1 while gas costs more than is allowed", registry=self.registry)
        self.messages = Counter(
            "et_tx", "Messages sent by kind and outcome", ["kind", "outcome"], registry=self.registry
        )
        self.gas = Counter("et_tx_gas_used", "Gas of messages that are in the chain", registry=self.registry)
        self.blob_bytes = Counter("et_blob_bytes", "Bytes of blobs", ["direction"], registry=self.registry)
        self.checked = Counter(
            "et_blobs_checked", "Blobs whose bytes were looked at, by what was found", ["found"], registry=self.registry
        )
        self.collected = Counter("et_blobs_collected", "Blobs that nobody named any more", registry=self.registry)
        self.leads = Gauge("et_leads", "1 while this process leads on its database", registry=self.registry)
        self.block = Gauge("et_indexed_block", "The newest block that was read", registry=self.registry)
        self.lag = Gauge("et_rpc_head_lag_seconds", "Time since the chain was read", registry=self.registry)
        self.well = Gauge("et_well", "1 while the database and the blobs answer", registry=self.registry)
        self.reorganisations = Counter("et_reorganisations", "Reorganisations seen", registry=self.registry)
        self.poll_failures = Counter("et_poll_failures", "Questions to the chain that failed", registry=self.registry)
        for state in State:
            if state is not State.NONE:
                self.tasks.labels(state.name.lower())
        for batch_state in BatchState:
            if batch_state is not BatchState.NONE:
                self.batches.labels(batch_state.name.lower())
        for verb in (*Verb, *BatchVerb, *acts, "post", "prune"):
            for outcome in OUTCOMES:
                self.messages.labels(str(verb), outcome)
        for verdict in verdicts:
            self.looks.labels(str(verdict))
        for found in FOUND:
            self.checked.labels(found)
        for direction in DIRECTIONS:
            self.blob_bytes.labels(direction)
