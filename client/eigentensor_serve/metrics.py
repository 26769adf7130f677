"""What can be counted, all of it from the start."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from eigentensor_serve.jobs import State

CLASSES = ("2xx", "3xx", "4xx", "5xx")


class Metrics:
    """A registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("et_serve_requests", "Answered requests", ["status"], registry=self.registry)
        self.seconds = Histogram("et_serve_request_seconds", "Until an answer began", registry=self.registry)
        self.jobs = Gauge("et_serve_jobs", "Tasks of this service", ["state"], registry=self.registry)
        self.spent = Gauge("et_serve_spent_wei", "What they cost, or may still cost", registry=self.registry)
        for status in CLASSES:
            self.requests.labels(status)
        for state in State:
            self.jobs.labels(state.value)
