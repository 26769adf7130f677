"""`/v1/embeddings`, decided: texts become the encoder's tensors, its output becomes vectors. Pure."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from eigentensor.program import Program, Role
from eigentensor_client.byte_pairs import END
from eigentensor_client.files import Tensors
from eigentensor_client.tokenizer import Tokenizer
from eigentensor_serve.apps.models import Embeddings
from eigentensor_serve.openai.chat import tokens_of
from eigentensor_serve.openai.errors import Unsupported

TEXTS = 2048  #: at most in one request

Values = np.ndarray[Any, Any]


class EmbeddingsRequest(BaseModel):
    """What an encoder is asked: texts, or texts that are tokens already."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"model": "words", "input": ["a program", "a task"]}]}
    )

    model: str = Field(max_length=63)
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = None


def read(request: EmbeddingsRequest, pairs: Tokenizer, length: int) -> list[list[int]]:
    """The tokens of each text. Raises Unsupported for a text that is empty, or longer than the encoder reads."""
    for name, value in (request.model_extra or {}).items():
        if value is not None and name != "user":
            raise Unsupported(name)
    wanted = request.input
    texts: Sequence[str | list[int]]
    if isinstance(wanted, str):
        texts = [wanted]
    elif wanted and isinstance(wanted[0], int):
        texts = [wanted]  # a list of numbers is one text
    else:
        texts = wanted  # type: ignore[assignment]
    if not 1 <= len(texts) <= TEXTS:
        raise Unsupported("input", f"has {len(texts)} texts, not 1 to {TEXTS}", fix="Send several requests.")
    rows = [tokens_of(text, pairs, "input") for text in texts]
    for number, row in enumerate(rows):
        if not 1 <= len(row) <= length:
            raise Unsupported(
                "input", f"{number} has {len(row)} tokens, the model reads 1 to {length}", fix="Send shorter parts."
            )
    return rows


def batches(rows: Sequence[Sequence[int]], program: Program) -> Iterator[Tensors]:
    """The inputs of as few executions as there can be, each of as many texts as the encoder has rows."""
    most, length = Embeddings.shape(program)
    for start in range(0, len(rows), most):
        part = rows[start : start + most]
        tokens, mask = np.full((most, length), END, np.int32), np.zeros((most, length), np.float32)
        for number, row in enumerate(part):
            tokens[number, : len(row)] = row
            mask[number, : len(row)] = 1
        inputs: Tensors = {"tokens": tokens, "mask": mask}
        yield {name: inputs[name] for name in program.named(Role.INPUT)}


def pooled(output: Values, rows: Sequence[Sequence[int]], model: Embeddings) -> Values:
    """A vector for each text: float32, computed in float64."""
    if model.pooling == "mean":
        vectors = np.array([row[: len(tokens)].mean(0, np.float64) for row, tokens in zip(output, rows, strict=False)])
    else:
        vectors = (output[:, 0] if model.pooling == "first" else output)[: len(rows)].astype(np.float64)
    if model.normalise:
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return vectors.astype(np.float32)


def answer(model: str, vectors: Values, tokens: int, encoding: str | None) -> dict[str, Any]:
    """OpenAI's list of embeddings, in the order of the texts."""
    listed = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
            if encoding == "base64"
            else vector.tolist(),
        }
        for index, vector in enumerate(vectors)
    ]
    return {
        "object": "list",
        "data": listed,
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
