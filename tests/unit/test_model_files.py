"""Files of models: what is not known is refused by its name, what is missing or does not fit by its place."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from eigentensor.errors import BindingError, ConfigError, TensorFileError
from eigentensor_models.families import architecture_of
from eigentensor_models.folder import read_network
from eigentensor_models.model import load
from eigentensor_models.writing import programs
from support.vectors.model_texts import FOLDER as TEXTS
from support.vectors.models import FOLDER, MODELS


def config(name: str, **more: Any) -> dict[str, Any]:
    return {**json.loads((FOLDER / name / "config.json").read_text()), **more}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A copy of a model in two files."""
    return Path(shutil.copytree(FOLDER / "llama3", tmp_path / "llama3"))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_an_option_that_is_not_known_is_refused_by_its_name(name: str) -> None:
    assert architecture_of(config(name)).shapes()
    for option in ("use_qk_norm", "quantization_config", "attention_sinks"):
        with pytest.raises(ConfigError, match=f"the option '{option}' is not known"):
            architecture_of(config(name, **{option: {"bits": 4}}))


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("llama3", "hidden_act", "relu"),
        ("llama3", "rope_interleaved", True),
        ("llama3", "is_encoder_decoder", True),
        ("gemma2", "hidden_activation", "gelu"),
        ("gemma2", "use_bidirectional_attention", True),
        ("gemma3", "attn_logit_softcapping", 50.0),
        ("phi3", "attention_bias", True),
        ("qwen2", "layer_types", ["full_attention", "linear_attention"]),
        ("llama3", "rope_parameters", {"rope_type": "mrope", "factor": 2.0}),
        ("llama3", "rope_parameters", {"rope_type": "default", "rope_theta": 1e4, "more": 1}),
    ],
)
def test_a_value_that_is_not_known_is_refused_by_its_name(name: str, option: str, value: Any) -> None:
    named = next(iter(value.keys() - {"factor", "rope_theta"}), "") if isinstance(value, dict) else option
    with pytest.raises(ConfigError, match="is not known here") as refused:
        architecture_of(config(name, **{option: value}))
    assert option in refused.value.what or named in refused.value.what


@pytest.mark.parametrize(
    ("option", "value", "match"),
    [
        ("hidden_size", 33, "cannot be cut into 4 heads"),
        ("hidden_size", -4, "hidden_size is -4"),
        ("hidden_size", 1 << 40, "hidden_size is"),
        ("hidden_size", "32", "hidden_size is"),
        ("hidden_size", True, "hidden_size is true"),
        ("hidden_size", None, "hidden_size is missing"),
        ("num_hidden_layers", 1 << 20, "layers"),
        ("num_key_value_heads", 3, "cannot share 3"),
        ("head_dim", 7, "cannot turn in pairs"),
        ("head_dim", (1 << 31) - 2, "a head has 2147483646 elements"),
        ("rms_norm_eps", float("nan"), "rms_norm_eps is nan"),
        ("rope_parameters", [1], "rope_parameters is not an object"),
        ("rope_parameters", {"rope_type": "linear"}, "factor is missing"),
        ("rope_parameters", {"rope_type": "dynamic"}, "factor is missing"),
        ("rope_parameters", {"rope_type": "linear", "factor": 0}, "factor is 0"),
        ("rope_parameters", {"rope_type": "longrope", "short_factor": [1.0], "long_factor": []}, "not a list of"),
        ("model_type", "mamba", "models of kind 'mamba' are not known"),
        ("model_type", 5, "model_type is 5"),
    ],
)
def test_a_value_that_cannot_be_is_refused(option: str, value: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        architecture_of(config("llama3", head_dim=None) | {option: value})


def test_old_and_new_configurations_are_the_same() -> None:
    new = config("llama3")
    parameters = new.pop("rope_parameters")
    base = parameters.pop("rope_theta")
    old = {**new, "rope_theta": base, "rope_scaling": {**parameters, "type": parameters.pop("rope_type")}}
    assert architecture_of(old) == architecture_of(config("llama3"))
    gemma = config("gemma3")
    both = gemma.pop("rope_parameters")
    gemma |= {"rope_theta": both["full_attention"]["rope_theta"], "rope_scaling": {"type": "linear", "factor": 2.0}}
    gemma |= {"rope_local_base_freq": both["sliding_attention"]["rope_theta"]}
    assert architecture_of(gemma) == architecture_of(config("gemma3"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b'{"a": ' * 100_000, b"\xff\xfe"])
def test_json_that_is_none_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TEXTS / "qwen2", tmp_path / "qwen2"))
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match="is not the JSON that it should be"):
        load(folder, 16)


def test_missing_and_lying_shards_are_refused(llama: Path) -> None:
    index = llama / "model.safetensors.index.json"
    values = json.loads(index.read_text())
    first = sorted(set(values["weight_map"].values()))[0]
    for name in ("../other.safetensors", "/etc/passwd", "other.bin", 5):
        index.write_text(json.dumps({"weight_map": {**values["weight_map"], "model.norm.weight": name}}))
        with pytest.raises(TensorFileError, match="is said to be in"):
            read_network(llama)
    index.write_text(json.dumps({"weight_map": {**values["weight_map"], "more": first}}))
    with pytest.raises(TensorFileError, match="do not have the same tensors, 'more'"):
        read_network(llama)
    index.write_text(json.dumps({"weight_map": []}))
    with pytest.raises(TensorFileError, match="has no weight_map"):
        read_network(llama)
    index.write_text(json.dumps(values))
    read_network(llama)
    (llama / first).unlink()
    with pytest.raises(TensorFileError, match="is missing"):
        read_network(llama)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / "qwen2", tmp_path / "qwen2"))  # in float32
    weights = load_file(folder / "model.safetensors")
    at = "model.layers.0.self_attn.q_proj.weight"
    for changed, match in (
        ({at: weights[at][:-1]}, "q_proj.weight' has the shape"),
        ({at: weights[at].astype(np.int8)}, "elements of int8, a quantisation"),
        ({"model.vision.weight": weights[at]}, "'model.vision.weight', for which its configuration has no place"),
    ):
        save_file({**weights, **changed}, folder / "model.safetensors")
        with pytest.raises(TensorFileError, match=match):
            read_network(folder)
    save_file({name: array for name, array in weights.items() if name != at}, folder / "model.safetensors")
    with pytest.raises(TensorFileError, match="has no tensor"):
        read_network(folder)
    save_file(
        {**weights, "lm_head.weight": weights[at], "x.rotary_emb.inv_freq": weights[at]}, folder / "model.safetensors"
    )
    read_network(folder)  # what files of the same model have, or have not
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1])
    with pytest.raises(TensorFileError):
        read_network(folder)


def test_a_context_that_the_model_was_not_made_for_is_refused() -> None:
    network = read_network(FOLDER / "phi3")  # LongRoPE: 512 positions, of which the first 128 have factors of their own
    for context in (1, 129):
        with pytest.raises(BindingError, match="the model was made for 2 to 128"):
            programs(network, context)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / "qwen2", tmp_path / "qwen2"))
    with pytest.raises(ConfigError, match=r"cannot read .*tokenizer.json"):
        load(folder)
    shutil.copy(TEXTS / "qwen2" / "tokenizer.json", folder)
    with pytest.raises(ConfigError, match="has 382 tokens, the network 96"):
        load(folder)
