"""From an encoder's folder to vectors: deployed, asked by OpenAI's client and over HTTP, as transformers has them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
from safetensors.numpy import load, load_file, save

from eigentensor.errors import BindingError
from eigentensor_client.cli import main
from eigentensor_serve.apps.deployment import Here, deploy_local, read_named
from eigentensor_serve.apps.registry import Apps
from support.stories.served import served_here
from support.vectors.encoders import FOLDER, SENTENCES


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Apps, str]]:
    with served_here(tmp_path_factory.mktemp("home")) as (apps, url):
        yield apps, url


def test_openais_client_has_the_vectors_of_transformers(served: tuple[Apps, str]) -> None:
    apps, url = served
    with pytest.raises(SystemExit) as ended:
        main(["deploy", str(FOLDER / "minilm"), "--name", "words", "--local", "--batch", "2", "--context", "32",
              "--data", str(apps.root.parent)])  # fmt: skip
    assert ended.value.code == 0
    wanted = load_file(FOLDER / "minilm" / "expected.safetensors")["sentences"]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as ai:
        answer = ai.embeddings.create(model="words", input=list(SENTENCES))
        found = np.array([one.embedding for one in answer.data], np.float32)
        assert np.abs(found - wanted).max() <= 2e-4 * np.sqrt(np.square(wanted).mean())
        with pytest.raises(openai.BadRequestError, match="reads 1 to 32"):
            ai.embeddings.create(model="words", input="x" * 80)


@pytest.mark.slow
def test_images_are_asked_over_http(served: tuple[Apps, str]) -> None:
    apps, url = served
    arrays = load_file(FOLDER / "clip" / "expected.safetensors")
    parts = read_named(
        str(FOLDER / "clip"), Here(apps.store), None, None, None, apps, part="image", batch=len(arrays["pixel_values"])
    )
    deploy_local(apps, "images", parts)
    answer = httpx.post(
        f"{url}/v1/apps/images",
        content=save({"pixel_values": arrays["pixel_values"]}),
        headers={"Content-Type": "application/octet-stream"},
        timeout=60,
    )
    found = load(answer.content)["output"]
    assert np.abs(found - arrays["image"]).max() <= 2e-4 * np.sqrt(np.square(arrays["image"]).mean())


@pytest.mark.parametrize(
    ("name", "choice", "match"),
    [
        ("clip", {}, "the part is not named"),
        ("clip", {"part": "sound"}, "the part sound"),
        ("minilm", {"part": "text"}, "the part text"),
        ("minilm", {"context": 41}, "the model was made for 2 to 40"),
        ("minilm", {"batch": 5000}, "5000 rows at once"),
        ("vit", {"context": 8}, "this model reads no texts"),
        ("../models/qwen2", {"batch": 2}, "writes, one text at a time"),
    ],
)
def test_choices_that_there_are_not_are_refused(name: str, choice: dict[str, str | int], match: str) -> None:
    apps = Apps(Path("nowhere"))
    with pytest.raises(BindingError, match=match):
        read_named(str(FOLDER / name), Here(apps.store), None, None, None, apps, **choice)  # type: ignore[arg-type]
