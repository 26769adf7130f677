"""What a page asks for: each input of an app has a widget, which follows from its dtype and shape. Pure."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from eigentensor.numerics.dtypes import DType
from eigentensor.program import Buffer, Program, Role
from eigentensor_serve.apps.models import Chat
from eigentensor_serve.apps.registry import App
from eigentensor_serve.apps.schema import rows_word
from eigentensor_serve.rows import Rows

Kind = Literal["drawing", "picture", "numbers", "file"]

_DRAWN = 64  # pixels of the largest picture that is drawn by hand
_COUNTED = 16  # … of the largest that was counted out of a bitmap, as UCI's digits were
_LEAST = 8  # … of the smallest picture
_LONGEST = 128  # tokens of an answer
_TYPED = 64  # numbers that somebody may type
_PICTURED = frozenset({DType.FLOAT16, DType.FLOAT32, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT16})


@dataclass(frozen=True, slots=True)
class Pixels:
    """What a picture has to be; its channels stand `first` or `last` in the tensor."""

    channels: int
    height: int
    width: int
    layout: Literal["first", "last"] = "first"

    @property
    def prepared(self) -> str:
        """How what is drawn is made what the model learned from: see preparing.js."""
        return "counted" if self.height <= _COUNTED else "centred"

    def range(self, dtype: DType) -> str:
        """What its values are unless somebody chooses otherwise: see pictures.js."""
        if dtype.is_float:
            return "0-1"
        return "0-16" if self.is_drawn and self.height <= _COUNTED else "0-255"

    @property
    def is_drawn(self) -> bool:
        """Whether a person draws it, rather than chooses it."""
        return self.channels == 1 and self.height == self.width <= _DRAWN


@dataclass(frozen=True, slots=True)
class Widget:
    """How one input is asked for. `shape` is that of what a page sends: one row where rows are free; `takes` is the
    shape of the app's input in words."""

    kind: Kind
    name: str
    dtype: DType
    shape: tuple[int, ...]
    takes: str
    pixels: Pixels | None = None

    @property
    def data(self) -> dict[str, Any]:
        """What the scripts know of it: the `data-` attributes of its field."""
        common = {"widget": self.kind, "input": self.name, "dtype": self.dtype.name.lower(), "shape": [*self.shape]}
        if self.pixels is None:
            return common
        p = self.pixels
        return {
            **common, "channels": p.channels, "height": p.height, "width": p.width, "layout": p.layout,
            "prepared": p.prepared,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asking:
    """What the page of an app is: a `chat`, texts to be `embeddings`, or `tensors`, with a widget for each input.

    `digits` says that what is drawn is one of ten things: the page can write a digit by itself.
    """

    kind: Literal["chat", "embeddings", "tensors"]
    widgets: tuple[Widget, ...] = ()
    digits: bool = False
    settings: tuple[str, ...] = ()
    """Of a chat: what not every model honours of how an answer is drawn."""
    longest: int = 0
    """Of a chat: tokens of an answer, unless somebody says otherwise."""


def asking(app: App, program: Program) -> Asking:
    """How a page asks an app."""
    inputs = program.named(Role.INPUT)
    if isinstance(app.model, Chat):
        limits = tuple(name for name in ("top_p", "top_k") if name in inputs)
        longest = max(1, min(_LONGEST, app.model.context(program) // 2))
        return Asking("chat", settings=limits, longest=longest)
    if app.model is not None:
        return Asking("embeddings")
    widgets = tuple(widget(buffer, app.rows) for buffer in inputs.values())
    tens = any(result.shape and result.shape[-1] == 10 for result in program.outputs.values())
    return Asking("tensors", widgets, digits=tens and any(one.kind == "drawing" for one in widgets))


def widget(buffer: Buffer, rows: Rows | None = None) -> Widget:
    """How one input is asked for: drawn, if it is a small grey picture; chosen, if it is another; typed, if it is a few
    numbers; else a file."""
    is_free = rows is not None and buffer.name in rows.inputs
    shape = (1, *buffer.shape[1:]) if is_free else buffer.shape
    pixels = pixels_of(buffer.dtype, shape)
    kind: Kind = "file"
    if pixels is not None:
        kind = "drawing" if pixels.is_drawn else "picture"
    elif buffer.dtype is not DType.BFLOAT16 and prod(shape) <= _TYPED:
        kind = "numbers"
    return Widget(kind, buffer.name, buffer.dtype, shape, rows_word(buffer.shape, buffer.name, rows), pixels)


def pixels_of(dtype: DType, shape: tuple[int, ...]) -> Pixels | None:
    """The picture that a tensor of one row is; None for what is none. A grey one is square: a matrix is no picture."""
    rest = shape[1:] if len(shape) == 4 and shape[0] == 1 else shape
    if dtype not in _PICTURED or len(rest) != 3:
        return None
    first = Pixels(*rest)
    last = Pixels(rest[2], rest[0], rest[1], "last")
    return next((one for one in (first, last) if _is_picture(one)), None)


def takes_pictures(program: Program) -> bool:
    """Whether rows of an input are pictures, whatever a request may leave out."""
    return any(
        pixels_of(b.dtype, (1, *b.shape[1:]) if len(b.shape) == 4 else b.shape)
        for b in program.named(Role.INPUT).values()
    )


def _is_picture(pixels: Pixels) -> bool:
    is_known = pixels.channels == 3 or (pixels.channels == 1 and pixels.height == pixels.width)
    return is_known and min(pixels.height, pixels.width) >= _LEAST
