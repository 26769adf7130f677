"""The examples that `eigentensor init` writes: files of the folder `client/examples`, which a wheel has too."""

import ast
import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

from eigentensor.errors import BindingError, ConfigError
from eigentensor_client.files import write_whole

PACKAGED = Path(__file__).with_name("example_files")  #: where a wheel has the folder
FOLDER = PACKAGED if PACKAGED.is_dir() else Path(__file__).parents[1] / "examples"
MODELS = (
    "pytorch_mlp", "pytorch_cnn", "sklearn_pipeline", "sklearn_forest", "sentence_embeddings", "image_classifier",
    "diffusion_step",
)  # fmt: skip
#: What an example is made of, below FOLDER: a folder, or files. The first file says at its top what it is.
PARTS: dict[str, tuple[str, ...]] = {
    **{name: (f"{name}/export.py", f"{name}/*") for name in MODELS},
    "heat_equation": ("remote/heat_equation.py", "remote/heat_equation.txt", "plain/heat_equation.py"),
    "training": ("training.py", "training.txt", "digits.py", "digits.safetensors"),
}


class Example(NamedTuple):
    """Something to begin with."""

    name: str
    what: str  #: a line
    command: str  #: makes it a paid task
    files: dict[str, Path]  #: by their places in its own folder


def example(name: str) -> Example:
    """The one of a name. Raises BindingError where there is none."""
    if name not in PARTS:
        there = ", ".join(PARTS)
        raise BindingError(f"no example is named {name!r}", fix=f"Name one of these: {there}.")
    top, root = FOLDER / PARTS[name][0], FOLDER / name if name in MODELS else FOLDER
    paths = dict.fromkeys(path for part in PARTS[name] for path in sorted(FOLDER.glob(part)) if path.is_file())
    what, _, rest = (ast.get_docstring(ast.parse(top.read_text())) or "").partition("\n\n")
    command = rest.partition("\n\n")[0]
    return Example(name, what, command, {str(path.relative_to(root)): path for path in paths})


def examples() -> list[Example]:
    """All that there are."""
    return [example(name) for name in PARTS]


def write_example(example: Example, folder: Path) -> list[Path]:
    """Writes its files into a folder that is empty or not there. Raises ConfigError for any other place."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", fix="Name an empty folder, or one that is not there yet.")
    if folder.is_dir() and (there := sorted(path.name for path in folder.iterdir())):
        raise ConfigError(
            f"{folder.resolve()} is not empty: {', '.join(there[:3])}{', …' * (len(there) > 3)}",
            fix=f"Name another folder, which is made if it is not there: eigentensor init {example.name} FOLDER.",
        )
    written = []
    for place, source in example.files.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        written.append(write_whole(target, partial(shutil.copyfile, source)))
    return written
