"""Files of models with something changed in them: bytes, numbers, lengths, ends."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor_models import gguf
from eigentensor_models.encoders import ENCODERS, encoder_of
from eigentensor_models.encoding import weights_of
from eigentensor_models.folder import read_network
from eigentensor_models.gguf_network import network_of
from eigentensor_models.gguf_text import text_of
from eigentensor_models.options import Options, read_object
from eigentensor_models.text import ends_of, read_text
from support.vectors import encoders, gguf_models, model_texts, models

#: Numbers that lie: about counts, lengths, kinds, offsets.
_LIES = [0, 1, 2, 3, 7, 31, 33, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63), (1 << 64) - 1]
_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**70,
    1e-300,
    1e300,
    float("nan"),
    "",
    "x",
    "linear",
    [],
    [1],
    {},
    {"a": 1},
]
#: What is changed: GGUF files, and folders.
_FILES = [gguf_models.FOLDER / f"{name}.gguf" for name in ("llama-q8_0", "qwen2-q4_0", "mixtral-q8_0")]
_FOLDERS = [model_texts.FOLDER / "llama", model_texts.FOLDER / "qwen2", models.FOLDER / "mixtral"]
_FOLDERS += [encoders.FOLDER / name for name in ("minilm", "roberta", "clip", "vit", "whisper")]
HEAD = 4096  # bytes at the beginning of a file, of which most are changed


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """The same bytes with one to four of these done to them."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 5)):
        if not changed:
            break
        most = min(len(changed), HEAD) if random.random() < 0.8 else len(changed)
        place = int(random.integers(0, most))
        way = random.integers(0, 5)
        if way == 0:
            changed[place] ^= 1 << int(random.integers(0, 8))
        elif way == 1:
            size = int(random.choice([1, 4, 8]))
            lie = _LIES[int(random.integers(0, len(_LIES)))] % (1 << 8 * size)
            changed[place : place + size] = lie.to_bytes(size, "little")
        elif way == 2:
            del changed[place:]
        elif way == 3:
            del changed[place : place + int(random.integers(1, 40))]
        else:
            end = int(random.integers(0, len(changed)))
            changed[place:place] = changed[end : end + 40]
    return bytes(changed)


def mutated_json(data: bytes, random: np.random.Generator) -> bytes:
    """The same object with a member that is another value, gone, or named otherwise; or its bytes changed."""
    if random.random() < 0.3:
        return mutated(data, random)
    values = json.loads(data)
    for _ in range(random.integers(1, 4)):
        at: Any = values
        while isinstance(at, dict) and at:
            name = str(random.choice(sorted(at)))
            if not isinstance(at[name], dict) or random.random() < 0.5:
                break
            at = at[name]
        if not isinstance(at, dict) or not at:
            continue
        way, value = random.integers(0, 3), _VALUES[int(random.integers(0, len(_VALUES)))]
        if way == 0:
            at[name] = value
        elif way == 1:
            del at[name]
        else:
            at[f"{name}_{random.integers(0, 9)}"] = value
    return json.dumps(values).encode()


def read_gguf(path: Path) -> None:
    """All that `deploy` reads of a GGUF file before it captures."""
    file = gguf.read(path)
    network_of(file, path.name)
    text_of(file.metadata, path.name)


def read_folder(folder: Path) -> None:
    """All that `deploy` reads of a folder before it captures."""
    config = read_object(folder / "config.json")
    if Options(config, "config.json").word("model_type") in ENCODERS:
        part = "text" if config["model_type"] == "clip" else None
        weights_of(encoder_of(config, folder, part)[0], folder)
    else:
        read_network(folder)
        if (folder / "generation_config.json").is_file():
            ends_of(folder, read_text(folder))
    if (folder / "tokenizer.json").is_file():
        read_text(folder)


def tried(folder: Path, seed: int) -> None:
    """Writes one changed file, or folder, and reads it; what is raised is the caller's to judge."""
    random = np.random.default_rng(seed)
    if seed % 2:
        path = folder / "model.gguf"
        path.write_bytes(mutated(_FILES[int(random.integers(0, len(_FILES)))].read_bytes(), random))
        read_gguf(path)
        return
    original, place = _FOLDERS[int(random.integers(0, len(_FOLDERS)))], folder / "model"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(original, place, ignore=shutil.ignore_patterns("expected.*"))
    names = sorted(path for path in place.rglob("*") if path.is_file() and path.suffix in (".json", ".safetensors"))
    changed = place / "config.json" if random.random() < 0.3 else names[int(random.integers(0, len(names)))]
    change = mutated if changed.suffix == ".safetensors" else mutated_json
    changed.write_bytes(change(changed.read_bytes(), random))
    read_folder(place)
