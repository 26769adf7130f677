"""The process that renders chat templates: a line of JSON comes, one goes, until nothing comes. It has bounds of its
own: on memory, and on the processor's time for each template, whose seconds are its argument. Beyond that it dies.

Templates are programs of strangers in Jinja's language: its sandbox keeps them from everything but their arguments.
"""

import json
import resource
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MEMORY = 512 << 20  #: bytes that the process may have
TEXT = 4 << 20  #: letters of what is rendered, at most


class Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what an assistant says; for whoever asks it is its content."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own way

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        """Its body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class PublicNamespace(Namespace):
    """Jinja's namespace, without names that begin with an underscore."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a template may not set {name}")
        super().__setitem__(name, value)


def render(template: str, values: dict[str, Any]) -> str:
    """What transformers renders. Raises jinja2.TemplateError, and whatever a template does wrong."""
    text = _compiled(template).render(**values)
    if len(text) > TEXT:
        raise ValueError(f"it renders more than {TEXT >> 20} million letters")
    return text


@lru_cache(16)
def _compiled(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    named: dict[str, Callable[..., Any]] = {"raise_exception": _raise, "strftime_now": _now}
    environment.globals |= {**named, "namespace": PublicNamespace}
    return environment.from_string(template)


def _to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
             sort_keys: bool = False) -> str:  # fmt: skip
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(str(message))


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def main() -> None:
    """Renders until stdin ends."""
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))  # without a handler SIGPROF ends the process
        try:
            response = {"text": render(asked["template"], asked["values"])}
        except (Exception, RecursionError, MemoryError) as error:
            response = {"error": f"{type(error).__name__}: {error}"[:300]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(json.dumps(response).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
