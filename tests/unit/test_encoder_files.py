"""Folders of encoders: what is not known is refused by its name, what is not the encoder's is left alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from eigentensor.errors import ConfigError, TensorFileError
from eigentensor_models.encoders import encoder_of
from eigentensor_models.encoders.pooling import Pooling, read_pooling
from eigentensor_models.encoding import weights_of
from eigentensor_models.options import read_object
from support.vectors.encoders import FOLDER, MODELS


def config(name: str, **more: Any) -> dict[str, Any]:
    return {**read_object(FOLDER / name / "config.json"), **more}


def part_of(name: str) -> str | None:
    return "text" if name == "clip" else None


@pytest.fixture
def minilm(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER / "minilm", tmp_path / "minilm"))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_an_option_that_is_not_known_is_refused_by_its_name(name: str) -> None:
    assert encoder_of(config(name), FOLDER / name, part_of(name))[0].shapes()
    with pytest.raises(ConfigError, match="the option 'quantization_config' is not known"):
        encoder_of(config(name, quantization_config={"bits": 4}), FOLDER / name, part_of(name))


@pytest.mark.parametrize(
    ("name", "option", "value", "match"),
    [
        ("bert", "architectures", ["BertForSequenceClassification"], "'architectures' is not known"),
        ("bert", "position_embedding_type", "relative_key", "'position_embedding_type' is not known"),
        ("bert", "hidden_act", "swish", "'hidden_act' is not known"),
        ("bert", "is_decoder", True, "'is_decoder' is not known"),
        ("bert", "add_cross_attention", True, "'add_cross_attention' is not known"),
        ("bert", "num_attention_heads", 5, "cannot be cut into 5 heads"),
        ("roberta", "max_position_embeddings", 2, "it has 2 positions, from 2 on"),
        ("vit", "patch_size", 5, "cannot be cut into squares of 5"),
        ("vit", "id2label", [], "id2label is no object"),
        ("vit", "image_size", 1 << 20, "images of 1048576 pixels"),
        ("clip", "text_config", None, "text_config is missing"),
        ("whisper", "encoder_layers", 5000, "it has 5000 layers"),
    ],
)
def test_a_value_that_is_not_known_or_cannot_be_is_refused(name: str, option: str, value: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        encoder_of(config(name, **{option: value}), FOLDER / name, part_of(name))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "first"),
        ({"pooling_mode_mean_sqrt_len_tokens": True, "pooling_mode_mean_tokens": False}, "root"),
        ({"pooling_mode": "max"}, "max"),
    ],
)
def test_ways_of_pooling_are_those_of_the_folder(said: dict[str, Any], meant: str, minilm: Path) -> None:
    (minilm / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **said}))
    assert read_pooling(minilm) == (Pooling(meant, normalise=True), 24)


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"pooling_mode_lasttoken": True}, "'pooling_mode_lasttoken' is not known"),
        ({"pooling_mode_cls_token": True}, "it has 2 ways of pooling"),
        ({"pooling_mode": "lasttoken"}, "'pooling_mode' is not known"),
        ({"pooling_mode_first": True}, "'pooling_mode_first' is not known"),
    ],
)
def test_ways_of_pooling_that_are_not_known_are_refused(said: dict[str, Any], match: str, minilm: Path) -> None:
    (minilm / "1_Pooling" / "config.json").write_text(json.dumps(said))
    with pytest.raises(ConfigError, match=match):
        read_pooling(minilm)


@pytest.mark.parametrize(
    ("modules", "match"),
    [
        ([], "the modules none are not known"),
        ([{"type": "x.Transformer"}, {"type": "x.Dense"}], "the modules Transformer, Dense are not known"),
        ([{"type": "x.Transformer"}, {"type": "x.Pooling", "path": "../minilm"}], "is said to be in"),
        ([5], "the modules none are not known"),
        ({}, "it is not a list"),
    ],
)
def test_modules_that_are_not_known_are_refused(modules: Any, match: str, minilm: Path) -> None:
    (minilm / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ConfigError, match=match):
        read_pooling(minilm)


def test_old_names_and_what_is_not_the_encoders_are_known(minilm: Path) -> None:
    """As in files that were made from TensorFlow's: prefixed, with heads and positions."""
    encoder, _ = encoder_of(config("minilm"), minilm)
    weights = load_file(minilm / "model.safetensors")
    old = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): array
        for name, array in weights.items()
    }
    old |= {"bert.embeddings.position_ids": np.arange(40), "cls.predictions.bias": np.zeros(96, np.float32)}
    save_file(old, minilm / "model.safetensors")
    found = weights_of(encoder, minilm)
    for name, shape in encoder.shapes().items():
        assert found[name].shape == shape and found[name].parts(name)[name].array.tobytes() == weights[name].tobytes()
    save_file({**old, "bert.encoder.adapter.weight": weights["pooler.dense.weight"]}, minilm / "model.safetensors")
    with pytest.raises(TensorFileError, match=r"'encoder.adapter.weight', for which its configuration has no place"):
        weights_of(encoder, minilm)
