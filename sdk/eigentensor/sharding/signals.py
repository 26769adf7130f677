"""Signals: names around instructions, and what an author says about where the calls of such a scope are computed.

    layer1:
      shard: {axis: 0, workers: [0, 1], replicated: false}
      backward: layer1_gradients
      compile: true

A signal is advice. Without it, or without the workers that it names, a program computes the same bits elsewhere.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import Node

from eigentensor.errors import ConfigError

BYTES = 1 << 16  #: of a configuration, at most
SIGNALS = 1024
NAME_BYTES = 128
WORKERS = 4096  #: numbers of workers are smaller
DIMENSIONS = 8  #: of a tensor, at most
DEPTH = 8  #: mappings and lists within each other, at most

_TAG = "tag:yaml.org,2002:"


class Hint(NamedTuple):
    """What a signal says about a call: its result is cut along `axis` over `workers`, or is whole on each of them.

    A negative axis counts from the last one.
    """

    axis: int
    workers: tuple[int, ...]
    replicated: bool


@dataclass(frozen=True, slots=True)
class ShardConfig:
    """Where results lie: parts along an axis on some workers, None being all; or whole on each. Raises ConfigError."""

    axis: int = 0
    workers: tuple[int, ...] | None = None
    replicated: bool = False

    def __post_init__(self) -> None:
        if type(self.axis) is not int or not -DIMENSIONS <= self.axis < DIMENSIONS:
            raise ConfigError(f"the axis {self.axis!r} is none", fix=f"Write a whole number below {DIMENSIONS}.")
        if self.workers is not None:
            object.__setattr__(self, "workers", _workers(self.workers))
        if type(self.replicated) is not bool:
            raise ConfigError(f"replicated is {self.replicated!r}", fix="Write true or false.")


@dataclass(frozen=True, slots=True)
class SignalConfig:
    """What an author says about a scope: its shards, the signal that its gradients' instructions carry, and whether it
    is compiled at first sight. Raises ConfigError."""

    shard: ShardConfig | None = None
    backward_signal: str | None = None
    compile: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.shard, ShardConfig | None):
            raise ConfigError(f"shard is {self.shard!r}", fix="Write {axis: 0, workers: [0, 1]}, or ShardConfig(…).")
        if self.backward_signal is not None:
            _require_name(self.backward_signal)
        if type(self.compile) is not bool:
            raise ConfigError(f"compile is {self.compile!r}", fix="Write true or false.")


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals by name, of one session; immutable, so that what is recorded with one keeps its meaning."""

    by_name: Mapping[str, SignalConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.by_name) > SIGNALS:
            raise ConfigError(f"there are {len(self.by_name)} signals", fix=f"Keep to {SIGNALS}.")
        object.__setattr__(self, "by_name", MappingProxyType(dict(self.by_name)))

    def with_signal(self, name: str, config: SignalConfig) -> "Signals":
        """These and one more, or another meaning of one. Raises ConfigError for what is no name or no configuration."""
        _require_name(name)
        if not isinstance(config, SignalConfig):
            raise ConfigError(f"the signal {name!r} is {config!r}", fix="Give a SignalConfig.")
        return replace(self, by_name={**self.by_name, name: config})

    def innermost(self, scopes: Sequence[str]) -> str | None:
        """Of the names of nested scopes, outermost first, the one that holds: the last that is a signal."""
        return next((name for name in reversed(scopes) if name in self.by_name), None)

    def hint(self, name: str | None, workers: Collection[int]) -> Hint | None:
        """What a signal says where these workers are; None where it says nothing about places, or is none.

        Workers that it names and that are not there are left out; where none of its own is there, it means all.
        """
        config = None if name is None else self.by_name.get(name)
        if config is None or config.shard is None:
            return None
        axis, named, replicated = config.shard.axis, config.shard.workers, config.shard.replicated
        there = tuple(sorted(workers))
        own = there if named is None else tuple(worker for worker in named if worker in workers)
        return Hint(axis, own or there, replicated)

    def hints(self, names: Mapping[int, str], calls: int, workers: Collection[int]) -> tuple[Hint | None, ...]:
        """What the signals of these names, by number of the call, say about each of so many calls; nothing if they say
        it about none: then the cheapest places are to be found."""
        hints = tuple(self.hint(names.get(call), workers) for call in range(calls)) if names and self.by_name else ()
        return hints if any(hints) else ()

    def remarks(self, workers: Collection[int]) -> list[str]:
        """Sentences, to be said once, about what these signals name and is not there; calls go elsewhere for it."""
        named = {w for config in self.by_name.values() if config.shard for w in config.shard.workers or ()}
        missing = sorted(named - set(workers))
        remarks = []
        if missing:
            there = ", ".join(map(str, sorted(workers)))
            remarks.append(f"signals name workers that are not there, {', '.join(map(str, missing))}; there: {there}")
        for name, config in self.by_name.items():
            if config.backward_signal is not None and config.backward_signal not in self.by_name:
                remarks.append(f"the gradients of {name!r} carry {config.backward_signal!r}, which is no signal")
        return remarks

    def to_yaml(self) -> str:
        """A text that `parse` reads as the same."""
        return json.dumps({name: _written(config) for name, config in self.by_name.items()}, ensure_ascii=False)


def load(path: str | Path) -> Signals:
    """The signals of a YAML file. Raises ConfigError, which names file and line."""
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="Name a YAML file of signals.") from None
    return parse(data, str(path))


def parse(data: bytes | str, source: str = "signals") -> Signals:
    """The signals that a YAML text describes. Raises ConfigError, which names the source and the line."""
    text = _text(data, source)
    try:
        root = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _refused(source, mark.line + 1 if mark else 1, what, _YAML) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refused(source, line, "a character that YAML does not have", _YAML) from None
    return Signals() if root is None or root.tag == f"{_TAG}null" else _Reader(source).signals(root)


_YAML = "Write YAML: spaces instead of tabs, each name followed by a colon."
_FORM = "Write NAME: {shard: {axis: 0, workers: [0, 1], replicated: false}, backward: NAME, compile: true}."


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses what is nested too deeply before it has taken time."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.depth == DEPTH:
            raise yaml.MarkedYAMLError(problem="it is nested too deeply", problem_mark=self.peek_event().start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


#: What a mapping may have, by the names of the fields that it gives.
_SIGNAL = {"shard": "shard", "backward": "backward_signal", "compile": "compile"}
_SHARD = {name: name for name in ("axis", "workers", "replicated")}
#: The values of a mapping by their names, each with its line.
_Members = dict[str, tuple[int, Node]]


class _Reader:
    """Composed YAML, which knows its lines, as signals. An alias is the node that it stands for: nothing is copied."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._read: dict[tuple[int, int], _Members | None] = {}  # None while it is read

    def signals(self, root: Node) -> Signals:
        """All signals of a document."""
        made: dict[str, SignalConfig] = {}
        for name, (line, node) in self._members(root, None).items():
            with self._located(line):
                _require_name(name)
            made[name] = self._signal(node)
        with self._located(1):
            return Signals(made)

    def _signal(self, node: Node) -> SignalConfig:
        values: dict[str, Any] = {}
        for key, (line, value) in self._members(node, _SIGNAL).items():
            is_shard = key == "shard" and value.tag != f"{_TAG}null"
            taken = self._shard(value) if is_shard else self._value(value)
            values |= self._checked(SignalConfig, _SIGNAL[key], taken, line)
        return SignalConfig(**values)

    def _shard(self, node: Node) -> ShardConfig:
        values: dict[str, Any] = {}
        for key, (line, value) in self._members(node, _SHARD).items():
            values |= self._checked(ShardConfig, key, self._value(value), line)
        return ShardConfig(**values)

    def _checked(self, kind: Any, key: str, value: Any, line: int) -> dict[str, Any]:
        """A field, held to what its kind says; null is as missing."""
        with self._located(line):
            return {} if value is None else {key: getattr(kind(**{key: value}), key)}

    def _members(self, node: Node, known: Mapping[str, str] | None) -> _Members:
        """Those of a mapping, over those of the mappings that it merges, of which the first one holds."""
        key = id(node), id(known)
        if key in self._read:
            if (members := self._read[key]) is None:
                raise self._refused(node, "it contains itself", _FORM)
            return members
        self._read[key] = None
        members = {}
        for name, value in self._pairs(node):
            if name.tag == f"{_TAG}merge":
                for part in value.value if value.tag == f"{_TAG}seq" else [value]:
                    members = self._members(part, known) | members
        members |= self._own(node, known)
        self._read[key] = members
        return members

    def _own(self, node: Node, known: Mapping[str, str] | None) -> _Members:
        own: _Members = {}
        for name, value in self._pairs(node):
            if name.tag == f"{_TAG}merge":
                continue
            if name.tag != f"{_TAG}str":
                raise self._refused(name, "a name that is no text", "Put it into quotes.")
            if name.value in own:
                raise self._refused(name, f"{name.value!r} stands there twice", "Leave one of them.")
            if known is not None and name.value not in known:
                raise self._refused(name, f"{name.value!r} is unknown here", f"Known are {', '.join(known)}.")
            own[name.value] = name.start_mark.line + 1, value
        return own

    def _pairs(self, node: Node) -> list[tuple[Node, Node]]:
        if node.tag != f"{_TAG}map":
            raise self._refused(node, "here names with values are wanted", _FORM)
        pairs: list[tuple[Node, Node]] = node.value
        return pairs

    def _value(self, node: Node) -> Any:
        """A number, a text, true, false or nothing, or a list of such."""
        if node.tag == f"{_TAG}seq":
            return [self._scalar(item) for item in node.value]
        return self._scalar(node)

    def _scalar(self, node: Node) -> Any:
        kind = node.tag.removeprefix(_TAG) if node.id == "scalar" else ""
        if kind == "int" and re.fullmatch("[+-]?(0|[1-9][0-9]{0,8})", node.value):
            return int(node.value)
        if kind == "bool" and node.value.lower() in SafeConstructor.bool_values:
            return SafeConstructor.bool_values[node.value.lower()]
        if kind == "str":
            return node.value
        if kind != "null":
            raise self._refused(node, "a value that no signal has", _FORM)
        return None

    @contextmanager
    def _located(self, line: int) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            raise _refused(self._source, line, error.what, error.fix) from None

    def _refused(self, node: Node, what: str, fix: str) -> ConfigError:
        return _refused(self._source, node.start_mark.line + 1, what, fix)


def _refused(source: str, line: int, what: str, fix: str) -> ConfigError:
    return ConfigError(f"{source}, line {line}: {what}", fix=fix)


def _text(data: bytes | str, source: str) -> str:
    """YAML as text, of bounded size."""
    if len(data) > BYTES:
        raise ConfigError(f"{source} has more than {BYTES:,} bytes", fix="Keep to fewer signals.")
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(source, line, "bytes that are no UTF-8", "Save it as UTF-8.") from None


def _require_name(name: Any) -> None:
    is_name = isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= NAME_BYTES
    if not is_name:
        fix = f"Write printable text of at most {NAME_BYTES} bytes."
        raise ConfigError(f"{name!r:.200} is no name of a signal", fix=fix)


def _workers(workers: Any) -> tuple[int, ...]:
    fix = "Write a list of different numbers from 0 on, or null for all workers."
    if not isinstance(workers, list | tuple) or not workers:
        raise ConfigError(f"workers is {workers!r:.200}", fix=fix)
    for number, worker in enumerate(workers):
        if type(worker) is not int or not 0 <= worker < WORKERS or worker in workers[:number]:
            raise ConfigError(f"there is {worker!r:.200} among the workers", fix=fix)
    return tuple(workers)


def _written(config: SignalConfig) -> dict[str, Any]:
    shard = None if config.shard is None else {name: getattr(config.shard, name) for name in _SHARD}
    return {"shard": shard, "backward": config.backward_signal, "compile": config.compile}
