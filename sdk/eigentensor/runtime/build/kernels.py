"""The object code of a program's bodies: from the cache, or compiled and put there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Protocol

from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.program.model import Body
from eigentensor.system import processors

TOGETHER = 8  #: texts that one process of a compiler is given, at most


class Compiler(Protocol):
    """What makes the code of bodies for one device: a Toolchain, or a Gridded."""

    @property
    def can_compile(self) -> bool:
        """Whether it does, or only names and finds what is compiled."""

    @property
    def driver(self) -> str:
        """The text of what runs the calls; empty where the device does."""

    def key(self, body: Body) -> str:
        """The name of the code of a body."""

    def name(self, what: str) -> str:
        """The name of code that is no body's."""

    def source(self, body: Body) -> str:
        """The text of a body, complete: `compile` takes it."""

    def compile(self, text: str) -> bytes:
        """Code of a text. Raises ExecutionError, or LimitError if it takes too long."""

    def compile_all(self, texts: Sequence[str]) -> list[bytes]:
        """The same of several texts."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Code of each body (None if its calls write no element) and of the driver; how many were compiled now."""

    bodies: Mapping[Body, bytes | None]
    driver: bytes
    compiled: int


def prepare(
    bodies: Iterable[Body], cache: Cache, toolchain: Compiler, compiler: Callable[[str], bytes] | None = None
) -> Kernels:
    """Object code of different bodies; what the cache lacks is compiled, by `compiler` if one is given."""
    bodies = tuple(dict.fromkeys(bodies))
    keys = [toolchain.key(body) if body.parameters[0].elements else None for body in bodies]
    driver = toolchain.name("driver.c") if toolchain.driver else None
    cached = {key: cache.get(key) for key in (*keys, driver) if key is not None}

    def compiled(some: Sequence[str]) -> dict[str, bytes]:
        texts = [toolchain.driver if key == driver else toolchain.source(bodies[keys.index(key)]) for key in some]
        codes = toolchain.compile_all(texts) if compiler is None else [compiler(text) for text in texts]
        made = dict(zip(some, codes, strict=True))
        for key, code in made.items():
            cache.put(key, code)
        return made

    missing = [key for key, code in cached.items() if code is None]
    if missing and compiler is None and not toolchain.can_compile:
        raise ExecutionError(
            f"{len(missing)} kernels are not in the cache, and there is no compiler here",
            fix="The runtime has changed since it started: restart the process that uses it.",
        )
    new = _each(compiled, missing, 1 if compiler else TOGETHER)
    if missing:
        cache.prune()
    codes = {key: code or new[key] for key, code in cached.items()}
    return Kernels(
        {body: None if key is None else codes[key] for body, key in zip(bodies, keys, strict=True)},
        b"" if driver is None else codes[driver],
        len(missing),
    )


def _each(compiled: Callable[[Sequence[str]], dict[str, bytes]], keys: Sequence[str], most: int) -> dict[str, bytes]:
    """The code of each, made by as many threads as there are processors, which take at most so many at a time: a
    process that ends waits for none of them. After the first error, which is raised, no other is begun."""
    waiting, done, over = SimpleQueue[Sequence[str]](), SimpleQueue[dict[str, bytes] | BaseException](), Event()
    size = max(1, min(most, -(-len(keys) // processors())))
    parts = [keys[i : i + size] for i in range(0, len(keys), size)]
    for part in parts:
        waiting.put(part)

    def work() -> None:
        while not over.is_set():
            try:
                part = waiting.get_nowait()
            except Empty:
                return
            try:
                done.put(compiled(part))
            except BaseException as error:
                done.put(error)

    for _ in range(min(len(parts), processors())):
        Thread(target=work, name="compiler", daemon=True).start()
    codes: dict[str, bytes] = {}
    try:
        for _ in parts:
            made = done.get()
            if isinstance(made, BaseException):
                raise made
            codes |= made
    finally:
        over.set()
    return codes
