"""What makes an app speak text: a tokenizer, and how the program's tensors are to be read. Pure.

A model file is a JSON object with `schema`, `kind` (`chat` or `embeddings`), `tokenizer` (the path of its file, from
the folder of the model file) and the fields of `Chat` or `Embeddings`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from eigentensor.errors import BindingError, ConfigError
from eigentensor.lowering.build import NAME as FINGERPRINT
from eigentensor.program import DType, Program, Role
from eigentensor_client.byte_pairs import END
from eigentensor_client.tokenizer import Tokenizer

SCHEMA = "eigentensor.model/1"
ROLES = ("system", "developer", "user", "assistant")
POOLINGS = ("mean", "first", "none")
CONTENT = "{content}"
OUTPUT = "output"  # the name that capture gives to what a function returns


@dataclass(frozen=True, slots=True)
class Chat:
    """A program that writes (`eigentensor_client.writing`), as `/v1/chat/completions`.

    `turns` says for each role that the model knows how a message stands in the text, with {content} for what it says;
    the text ends with `reply`; a tokenizer with a template of its own says it instead. `step` tokens are one execution,
    and one paid task. The token `end` ends an answer, and so do `ends`.
    """

    tokenizer: str
    turns: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(("system", "user", "assistant"), CONTENT))
    reply: str = ""
    step: int = 16
    end: int = END
    ends: Sequence[int] = ()
    kind: str = field(default="chat", init=False)

    def __post_init__(self) -> None:
        for role, turn in self.turns.items():
            if role not in ROLES or CONTENT not in turn:
                raise ValueError(f"a turn is one of {', '.join(ROLES)} with {CONTENT} in it, not {role}: {turn!r}")
        if not self.step >= 1:
            raise ValueError("a step has at least one token")
        if any(type(token) is not int for token in self.ends):
            raise ValueError("ends are tokens")

    def to_json(self) -> dict[str, Any]:
        """The members of the model file."""
        return asdict(self)

    def fit(self, program: Program, pairs: Tokenizer) -> None:
        """Raises BindingError for a program that does not write, with this tokenizer."""
        context = self.context(program)
        expected = {
            "prompt": (DType.INT32, (context + 1,)), "temperature": (DType.FLOAT32, ()),
            "margin": (DType.FLOAT32, ()), "seed": (DType.UINT32, (2,)),
        }  # fmt: skip
        limits = {"top_k": (DType.INT32, ()), "top_p": (DType.FLOAT32, ())}
        expected |= {name: kind for name, kind in limits.items() if name in program.named(Role.INPUT)}
        _check_inputs(program, expected, "writes tokens")
        if OUTPUT not in program.outputs or program.outputs[OUTPUT].shape != (context + 1,):
            raise BindingError(f"a program that writes has an output `{OUTPUT}` of all {context + 1} tokens")
        for end in (self.end, *self.ends):
            if not 0 <= end < pairs.size:
                raise BindingError(f"the tokenizer has {pairs.size} tokens, none is {end}", fix="Correct `end`.")
        if program.max_repeat < context or not program.new_states or self.step > context:
            raise BindingError(
                f"a program that writes is repeated up to its context, {context} times, has states, and a step is not "
                f"longer; this one is repeated up to {program.max_repeat} times, with a step of {self.step}",
                fix="Capture it with max_repeat.",
            )

    def fit_reader(self, program: Program, reader: Program) -> None:
        """Raises BindingError for a program that does not read for the one that writes."""
        roles = (Role.INPUT, Role.WEIGHT, Role.STATE)
        parts, others = ({role: one.named(role) for role in roles} for one in (program, reader))
        results, of_other = (
            {(r.kind, r.name): (r.shape, one.parameter(r.buffer).dtype) for r in one.results if r.name != FINGERPRINT}
            for one in (program, reader)
        )
        (position,) = reader.variables or (None,)
        context = self.context(program)
        is_reader = (
            position is not None
            and (position.name, position.minimum) == ("position", 0)
            and 1 < position.stride <= context
            and position.maximum + position.stride >= context
            and reader.max_repeat * position.stride >= context
        )
        if not is_reader or parts != others or results != of_other:
            raise BindingError(
                "a program that reads has the inputs, weights, states and outputs of the one that writes, and a "
                "variable `position`, from 0 by a chunk up to the last one",
                fix="Capture both of one decoder.",
            )

    @staticmethod
    def context(program: Program) -> int:
        """How many tokens a text may have. Raises BindingError for a program that does not write."""
        positions = [v for v in program.variables if (v.name, v.minimum, v.stride) == ("position", 0, 1)]
        if len(positions) != len(program.variables) or not positions:
            raise BindingError("a program that writes tokens has one variable, `position`, from 0 by 1")
        return positions[0].maximum + 1


@dataclass(frozen=True, slots=True)
class Embeddings:
    """An encoder as `/v1/embeddings`: its input `tokens` is int32 (rows, length), and `mask`, if it has one, float32 of
    that shape, 1 where there is a token.

    Its output `output` is float32 (rows, length, width), of which `pooling` takes the mean over the tokens or the first
    one, or (rows, width) with `none`. `normalise` makes each vector as long as 1.
    """

    tokenizer: str
    pooling: str = "mean"
    normalise: bool = True
    kind: str = field(default="embeddings", init=False)

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling is one of {', '.join(POOLINGS)}, not {self.pooling}")

    def to_json(self) -> dict[str, Any]:
        """The members of the model file."""
        return asdict(self)

    def fit(self, program: Program, pairs: Tokenizer) -> None:
        """Raises BindingError for a program that is no such encoder."""
        rows, length = self.shape(program)
        expected = {"tokens": (DType.INT32, (rows, length)), "mask": (DType.FLOAT32, (rows, length))}
        _check_inputs(program, {n: t for n, t in expected.items() if n in program.named(Role.INPUT)}, "is an encoder")
        whole = (rows, length) if self.pooling != "none" else (rows,)
        result = program.outputs.get(OUTPUT)
        is_float = result is not None and program.parameter(result.buffer).dtype is DType.FLOAT32
        if result is None or not is_float or result.shape[:-1] != whole or program.new_states or program.variables:
            raise BindingError(
                f"an encoder with pooling {self.pooling} has an output `{OUTPUT}`, float32 {(*whole, 'width')}, no "
                "states and no variables",
                fix="Choose another pooling, or capture a function of the tokens alone.",
            )

    @staticmethod
    def shape(program: Program) -> tuple[int, int]:
        """Texts in one execution, and tokens in each. Raises BindingError for a program that is no encoder."""
        tokens = program.named(Role.INPUT).get("tokens")
        if tokens is None or len(tokens.shape) != 2:
            raise BindingError("an encoder has an input `tokens` of shape (rows, length)")
        return tokens.shape[0], tokens.shape[1]


Model = Chat | Embeddings
_KINDS: dict[str, type[Model]] = {"chat": Chat, "embeddings": Embeddings}


def model_from_json(values: Mapping[str, Any]) -> Model:
    """Reads what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
    kind = _KINDS[values["kind"]]
    known = {f.name: f for f in fields(kind) if f.init}
    members = {name: value for name, value in values.items() if name not in ("schema", "kind")}
    if unknown := members.keys() - known.keys():
        raise ValueError(f"a model of kind {values['kind']} has no {', '.join(sorted(unknown))}")
    for name, value in members.items():
        wanted = {"turns": dict, "step": int, "end": int, "ends": list, "normalise": bool}.get(name, str)
        if type(value) is not wanted:
            raise TypeError(f"{name} is not of type {wanted.__name__}")
    if "ends" in members:
        members["ends"] = tuple(members["ends"])
    return kind(**members)


def read_model(path: Path) -> tuple[Model, Path]:
    """A model file, and the path of its tokenizer. Raises ConfigError."""
    try:
        values = json.loads(path.read_bytes())
        if values["schema"] != SCHEMA:
            raise ValueError(f"it is of kind {values['schema']}, not {SCHEMA}")
        model = model_from_json(values)
    except KeyError as error:
        raise ConfigError(f"{path} is not a model file: it lacks, or does not know, {error}") from None
    except (OSError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not a model file: {error}", fix="client/docs/pages/guides/model.md says what it holds."
        ) from None
    return model, path.parent / model.tokenizer


def _check_inputs(program: Program, expected: Mapping[str, tuple[DType, tuple[int, ...]]], what: str) -> None:
    inputs = {name: (b.dtype, b.shape) for name, b in program.named(Role.INPUT).items()}
    if inputs != expected:
        wanted = ", ".join(f"{name} {dtype.name.lower()} {shape}" for name, (dtype, shape) in expected.items())
        raise BindingError(f"a program that {what} takes {wanted}", fix="`eigentensor program show` shows this one's.")
