"""Spans of tasks for OpenTelemetry, where they are wanted: EIGENTENSOR_TRACES names a collector.

A task's trace is named by its uuid: its first 16 bytes are the trace, the next 8 the span of its post. So everybody who
works on a task, in whichever process and for whomever, tells of the same trace, and nobody has to be told of it. Beside
that, requests carry the W3C's `traceparent`, and what a gateway does for a request hangs under whoever asked.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from eigentensor.errors import ConfigError
from eigentensor.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

#: The setting: the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318.
COLLECTOR = "EIGENTENSOR_TRACES"
_tracer: "Tracer | None" = None
_provider: "TracerProvider | None" = None
_next: ContextVar[tuple[int, int] | None] = ContextVar("ids of the span that begins now", default=None)


def begin(service: str) -> None:
    """Tells the collector of what this process does as `service`, if there is one. Raises ConfigError without the
    packages that this takes."""
    if not (url := os.environ.get(COLLECTOR)):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"{COLLECTOR} is set, and packages are missing: {error.name}",
            fix="Run `pip install 'eigentensor[traces]'`, or unset it.",
        ) from None
    resource = Resource.create({"service.name": f"eigentensor-{service}", "service.version": VERSION})
    provider = TracerProvider(resource=resource, id_generator=_ids())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url.rstrip('/')}/v1/traces")))
    global _tracer, _provider
    _tracer, _provider = provider.get_tracer("eigentensor", VERSION), provider


def end() -> None:
    """Tells what is not told yet, and nothing from now on. A process that ends does so by itself."""
    global _tracer, _provider
    provider, _tracer, _provider = _provider, None, None
    if provider is not None:
        provider.shutdown()


@contextmanager
def span(name: str, task: bytes | None = None, **attributes: str | int | float) -> Iterator[None]:
    """What happens inside is a span of this task's trace, or of whatever goes on at the moment."""
    if _tracer is None:
        yield
        return
    parent = _of_task(task) if task is not None else None
    told = {f"eigentensor.{key}": value for key, value in attributes.items()}
    with _tracer.start_as_current_span(name, parent, attributes=told):
        yield


def say(**attributes: str | int | float) -> None:
    """Tells more of the span that goes on."""
    if _tracer is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attributes({f"eigentensor.{key}": value for key, value in attributes.items()})


def posted(task: bytes, begun: float) -> None:
    """The first span of a task's trace: its post, from `begun` (seconds since 1970) until now."""
    if _tracer is None:
        return
    from opentelemetry.context import Context

    token = _next.set((int.from_bytes(task[:16]), int.from_bytes(task[16:24])))
    try:
        _tracer.start_span("post", Context(), start_time=int(begun * 1e9)).end()
    finally:
        _next.reset(token)


def passed(name: str, task: bytes, begun: float) -> None:
    """A span of a task's trace that is over: from `begun` (seconds since 1970) until now."""
    if _tracer is not None:
        _tracer.start_span(name, _of_task(task), start_time=int(begun * 1e9)).end()


class Phases:
    """The phases of a task one after the other, a span each, named as they are told."""

    def __init__(self, task: bytes) -> None:
        self._task, self._name, self._begun = task, "", time.time()

    def now(self, name: str) -> None:
        """The phase that goes on, or none; the one before it is over if it is another."""
        if name != self._name:
            if self._name:
                passed(self._name, self._task, self._begun)
            self._name, self._begun = name, time.time()


def headers() -> dict[str, str]:
    """What a request carries of the span that goes on."""
    carrier: dict[str, str] = {}
    if _tracer is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier


@contextmanager
def asked(name: str, headers: Mapping[str, str]) -> Iterator[None]:
    """What is done for a request with these headers; a span only if it carries one."""
    if _tracer is None or "traceparent" not in headers:
        yield
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(headers)
    with _tracer.start_as_current_span(name, context, kind=SpanKind.SERVER):
        yield


def _of_task(task: bytes) -> "Context":
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    ids = int.from_bytes(task[:16]), int.from_bytes(task[16:24])
    return set_span_in_context(NonRecordingSpan(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(1))))


def _ids() -> Any:
    """Names spans as `posted` wants it, others at random."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            ids = _next.get()
            return ids[0] if ids else super().generate_trace_id()

        def generate_span_id(self) -> int:
            ids = _next.get()
            return ids[1] if ids else super().generate_span_id()

    return Ids()
