"""A program that writes and an encoder, as small as they can be, and the files that make them models."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tinygrad import Tensor

from eigentensor.capture import GraphProgram, capture
from eigentensor.store import save_safetensors
from eigentensor_client import byte_pairs
from eigentensor_serve.apps.deployment import Parts, read_parts
from eigentensor_serve.apps.registry import Apps
from language.decoder import Shape, drawn
from language.writing import writing

PAIRS = byte_pairs.trained("a program, a task, a trace\n" * 9, 280)
TINY = Shape(2, 24, 4, 2, 6, 32, vocabulary=280, context=16, window=5, full_every=2)
CHAT = '{"schema": "eigentensor.model/1", "kind": "chat", "tokenizer": "tokenizer.json", "step": %d}'
ENCODER = '{"schema": "eigentensor.model/1", "kind": "embeddings", "tokenizer": "tokenizer.json"}'


def chatting(shape: Shape = TINY, *, limits: bool = False) -> GraphProgram:
    """A decoder with random weights, which writes; with `limits` as top_k and top_p say."""
    graph, random = writing(drawn(shape), limits=limits), np.random.default_rng(3)
    weights = {n: random.normal(0, 0.3, w.shape).astype(np.float32) for n, w in graph.weights.items()}
    return GraphProgram(graph.program, weights, graph.states)


class Words:
    """A vector for each token; no more, so that it compiles in no time."""

    def __init__(self) -> None:
        self.table = Tensor(np.random.default_rng(4).standard_normal((PAIRS.size, 5), dtype=np.float32))

    def __call__(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.table[tokens] * mask.unsqueeze(-1)


def encoding(shape: tuple[int, int] = (2, 6)) -> GraphProgram:
    """An encoder of so many texts at a time, each of so many tokens; its only weight is `table`."""
    model = Words()
    inputs = {"tokens": np.zeros(shape, np.int32), "mask": np.zeros(shape, np.float32)}
    return capture(model, inputs, model=model)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a model in a folder of its own."""

    folder: Path
    graph: GraphProgram

    @classmethod
    def written(cls, folder: Path, graph: GraphProgram, model: str) -> "Files":
        """Writes them; `model` is the text of the model file."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_bytes(PAIRS.to_bytes())
        (folder / "model.json").write_text(model)
        for word, tensors in (("weights", graph.weights), ("states", graph.states)):
            save_safetensors(folder / word, dict(tensors))
        return cls(folder, graph)

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.folder / "weights"

    def parts(self, apps: Apps) -> Parts:
        """What an app is made of."""
        states = str(self.folder / "states") if self.graph.states else None
        return read_parts(self.graph.program, str(self.weights), states, self.folder / "model.json", apps)
