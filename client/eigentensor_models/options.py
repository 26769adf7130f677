"""A model's configuration, read strictly: an option that nobody takes is refused by its name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from eigentensor.errors import ConfigError

Value = TypeVar("Value")
LIMIT = 16 << 20  #: bytes of a file of options
_LARGEST = 1 << 31


class Options:
    """The members of a JSON object, each taken once; null is the same as none."""

    def __init__(self, values: Mapping[str, Any], what: str) -> None:
        self.what = what
        self._left = {name: value for name, value in values.items() if value is not None}

    def whole(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A number of at least `least`. Raises ConfigError, as all of these do, for what is not there, or is none."""
        value = self._taken(name, int, default)
        if not least <= value < _LARGEST:
            raise self.wrong(f"{name} is {value}", "It is a size.")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number above zero."""
        if type(self._left.get(name)) is int:
            self._left[name] = float(min(self._left[name], _LARGEST))
        value = self._taken(name, float, default)
        if not 0 < value <= _LARGEST:  # and not NaN
            raise self.wrong(f"{name} is {value}", "It is a number above zero.")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return self._taken(name, bool, default)

    def word(self, name: str, default: str | None = None) -> str:
        """A text."""
        return self._taken(name, str, default)

    def chosen(self, name: str, default: str, *known: str) -> str:
        """A word that is the default, or one of those that are known."""
        word = self.word(name, default)
        if word not in (default, *known):
            raise self.unknown(name, word)
        return word

    def words(self, name: str) -> list[str] | None:
        """A list of texts; none if it is not there."""
        values: list[str] | None = self._left.pop(name, None)
        if values is not None and (type(values) is not list or any(type(value) is not str for value in values)):
            raise self.wrong(f"{name} is not a list of words", "Look at that line.")
        return values

    def words_of(self, name: str, *known: str) -> str:
        """The one word of a list, which is one of those that are known; the first of them if it is not there."""
        values = self.words(name) or [known[0]]
        if len(values) != 1 or values[0] not in known:
            raise self.unknown(name, values)
        return values[0]

    def labels(self) -> int:
        """How many labels a classifier has, as `id2label` says it."""
        values = self._left.pop("id2label", None)
        if values is not None and (not isinstance(values, dict) or not values):
            raise self.wrong("id2label is no object with labels", "Look at that line.")
        self.ignore("label2id")
        return len(values) if values is not None else self.whole("num_labels", 2)

    def rename(self, names: Mapping[str, str]) -> None:
        """Gives options the names that others have for them, and lets go what had these."""
        for name, other in names.items():
            self._left.pop(other, None)
            if name in self._left:
                self._left[other] = self._left.pop(name)

    def flags(self, name: str) -> list[bool] | None:
        """A list of true and false; none if it is not there."""
        values: list[bool] | None = self._left.pop(name, None)
        if values is not None and (type(values) is not list or any(type(value) is not bool for value in values)):
            raise self.wrong(f"{name} is not a list of true and false", "Look at that line.")
        return values

    def numbers(self, name: str) -> list[float] | None:
        """A list of numbers above zero; none if it is not there."""
        values: list[float] | None = self._left.pop(name, None)
        if values is None:
            return None
        if type(values) is not list or any(type(v) not in (int, float) or not 0 < v <= _LARGEST for v in values):
            raise self.wrong(f"{name} is not a list of numbers above zero", "Look at that line.")
        return [float(value) for value in values]

    def wholes(self, name: str) -> list[int] | None:
        """A list of numbers from zero on; none if it is not there."""
        values: list[int] | None = self._left.pop(name, None)
        if values is not None and (type(values) is not list or any(type(v) is not int or v < 0 for v in values)):
            raise self.wrong(f"{name} is not a list of numbers", "Look at that line.")
        return values

    def room(self, name: str) -> "Options | None":
        """An object in it."""
        values = self._left.pop(name, None)
        if values is None:
            return None
        if not isinstance(values, dict):
            raise self.wrong(f"{name} is not an object", "Look at that line.")
        return Options(values, f"{name} of {self.what}")

    def has(self, name: str) -> bool:
        """Whether it says something."""
        return name in self._left

    def only(self, name: str, *allowed: Any) -> None:
        """Takes an option that has one meaning here. Raises ConfigError for others."""
        value = self._left.pop(name, allowed[0])
        if not any(value == one and type(value) is type(one) for one in allowed):
            raise self.unknown(name, value)

    def ignore(self, *names: str) -> None:
        """Takes what changes nothing that is computed."""
        for name in names:
            self._left.pop(name, None)

    def close(self) -> None:
        """Raises ConfigError for an option that nobody took."""
        for name, value in sorted(self._left.items()):
            raise self.unknown(name, value)

    def unknown(self, name: str, value: Any) -> ConfigError:
        """The refusal of an option, or of a value of it."""
        text = json.dumps(value)
        return ConfigError(
            f"{self.what}: the option {name!r} is not known here, with the value {text[:80]}",
            fix="Take a model without it: what is not known would change what it computes.",
        )

    def wrong(self, why: str, fix: str) -> ConfigError:
        """The refusal of what cannot be."""
        return ConfigError(f"{self.what}: {why}", fix=fix)

    def _taken(self, name: str, kind: type[Value], default: Value | None) -> Value:
        value = self._left.pop(name, default)
        if value is None:
            raise self.wrong(f"{name} is missing", "Fetch the file again.")
        if type(value) is not kind:
            raise self.wrong(f"{name} is {json.dumps(value)[:80]}", f"It is a {kind.__name__}.")
        return value


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises ConfigError for what is none, or larger than any is."""
    values: dict[str, Any] = _read(path, dict)
    return values


def read_list(path: Path) -> list[Any]:
    """The JSON list in a file. Raises ConfigError as `read_object` does."""
    values: list[Any] = _read(path, list)
    return values


def _read(path: Path, kind: type) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise ValueError(f"it has more than {LIMIT >> 20} MiB")
        values = json.loads(data)
        if not isinstance(values, kind):
            raise ValueError(f"it is not {'an object' if kind is dict else 'a list'}")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="Check the folder.") from None
    except (ValueError, RecursionError) as error:
        why = "it nests too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise ConfigError(f"{path} is not the JSON that it should be: {why}", fix="Fetch the file again.") from None
    return values
