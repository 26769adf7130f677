"""tests/vectors/encoders: small encoders of each family, written by transformers, and what it computes with them.

python -m support.vectors.encoders [NAME…]    # in tests/, where PyTorch and transformers are

A folder is a model as `save_pretrained` writes it, with `modules.json` where vectors are pooled as that says, and
`expected.safetensors`: what went in, and `output`, in float32.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from support.vectors.models import FOLDER as MODELS_FOLDER

FOLDER = MODELS_FOLDER.parent / "encoders"
WIDTHS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXTS = WIDTHS | {"vocab_size": 96, "max_position_embeddings": 40}
IMAGES = WIDTHS | {"image_size": 24, "patch_size": 8}
WHISPER = {
    "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_layers": 1,
    "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "vocab_size": 64, "num_mel_bins": 8,
    "max_source_positions": 12, "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "begin_suppress_tokens": None,
}  # fmt: skip
CLIP = {
    "text_config": TEXTS | {"eos_token_id": 5, "bos_token_id": 4, "pad_token_id": 5}, "projection_dim": 24,
    "vision_config": IMAGES,
}  # fmt: skip

#: By the folder's name: transformers' class, its configuration, the dtype of its file, ways of pooling.
MODELS: dict[str, tuple[str, dict[str, Any], str, tuple[str, ...]]] = {
    "minilm": ("BertModel", TEXTS, "float32", ("mean", "normalise")),
    "bge": ("BertModel", TEXTS | {"num_hidden_layers": 1}, "float16", ("cls", "normalise")),
    "bert": ("BertForMaskedLM", TEXTS | {"hidden_act": "gelu_new"}, "bfloat16", ()),
    "roberta": ("RobertaModel", TEXTS | {"type_vocab_size": 1, "pad_token_id": 1}, "bfloat16", ("max",)),
    "xlm_roberta": ("XLMRobertaForMaskedLM", TEXTS | {"type_vocab_size": 1, "pad_token_id": 1}, "float16", ()),
    "clip": ("CLIPModel", CLIP, "float16", ()),
    "vit": ("ViTForImageClassification", IMAGES | {"num_labels": 7}, "bfloat16", ()),
    "vit_squares": ("ViTModel", IMAGES | {"qkv_bias": False}, "float32", ()),
    "whisper": ("WhisperForConditionalGeneration", WHISPER, "bfloat16", ()),
}
LENGTHS = (11, 4, 1)  # of three texts
SENTENCES = ("a program", "Results, checked by others: café.", "x")  # as minilm's tokenizer splits them


def written(name: str) -> None:
    """Writes the model of that name: weights are drawn so that positions differ."""
    import torch
    import transformers

    kind, config, dtype, ways = MODELS[name]
    torch.manual_seed(len(name))
    of = getattr(transformers, kind)
    model = of(of.config_class(**config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 1.5 * parameter[0].numel() ** -0.5)
            elif parameter.ndim:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.to(getattr(torch, dtype)).save_pretrained(FOLDER / name)
    if ways:
        _pooled(FOLDER / name, ways)
    if name == "minilm":
        _tokenizer().save(str(FOLDER / name / "tokenizer.json"))


def _tokenizer() -> Any:
    """Pieces of words in lower case, between [CLS] and [SEP], as BERT has them."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    letters = "abcdefghijklmnopqrstuvwxyz,.:"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{one}" for one in letters), "program", "result", "##s"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    ends = [(word, vocabulary[word]) for word in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", ends)
    made.enable_truncation(8)  # which is not looked at
    return made


def _pooled(folder: Path, ways: tuple[str, ...]) -> None:
    """Writes how vectors are pooled, as sentence-transformers does."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"} | ({"2_Normalize": "Normalize"} if "normalise" in ways else {})
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    names = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "mean_sqrt_len": "mean_sqrt_len_tokens"}
    config = {f"pooling_mode_{long}": name in ways for name, long in names.items()}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32} | config) + "\n")
    (folder / "modules.json").write_text(json.dumps(modules) + "\n")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": false}\n')


def tokens() -> dict[str, np.ndarray[Any, Any]]:
    """Three texts of different lengths; each ends with CLIP's last token."""
    rows, mask = np.zeros((3, max(LENGTHS)), np.int64), np.zeros((3, max(LENGTHS)), np.int64)
    for number, length in enumerate(LENGTHS):
        rows[number, :length] = np.random.default_rng(number).integers(6, 96, length)
        rows[number, length - 1] = 5
        mask[number, :length] = 1
    return {"tokens": rows, "mask": mask}


def expected(name: str) -> dict[str, np.ndarray[Any, Any]]:
    """What transformers computes with a model in float32, and what goes in."""
    import torch
    import transformers

    kind, _, _, ways = MODELS[name]
    model = (
        getattr(transformers, kind)
        .from_pretrained(FOLDER / name, dtype=torch.float32, attn_implementation="eager")
        .eval()
    )
    random = np.random.default_rng(7)
    texts = {name: torch.tensor(array) for name, array in tokens().items()}
    images = torch.tensor(random.normal(0, 1, (2, 3, 24, 24)).astype(np.float32))
    features = torch.tensor(random.normal(0, 1, (2, 8, 24)).astype(np.float32))
    seen = {"input_ids": texts["tokens"], "attention_mask": texts["mask"]}
    of: dict[str, Callable[[], dict[str, Any]]] = {
        "CLIPModel": lambda: {
            **texts, "pixel_values": images, "text": model(**seen, pixel_values=images).text_embeds,
            "image": model(**seen, pixel_values=images).image_embeds,
        },
        "ViTForImageClassification": lambda: {"pixel_values": images, "output": model(images).logits},
        "ViTModel": lambda: {"pixel_values": images, "output": model(images).last_hidden_state},
        "WhisperForConditionalGeneration": lambda: {
            "input_features": features, "output": model.get_encoder()(features).last_hidden_state,
        },
    }  # fmt: skip
    with torch.no_grad():
        if kind in of:
            arrays = of[kind]()
        else:
            base = getattr(model, model.base_model_prefix, model)
            hidden = base(**seen).last_hidden_state
            arrays = {**texts, "output": _vectors(hidden, texts["mask"], ways)}
            if name == "minilm":
                arrays["sentences"] = torch.cat([_vectors(*_read(base, text), ways) for text in SENTENCES])
    types = {np.dtype(np.int64): np.int32}
    arrays = {word: np.array(tensor) for word, tensor in arrays.items()}
    return {word: array.astype(types.get(array.dtype, array.dtype)) for word, array in arrays.items()}


def _read(model: Any, text: str) -> tuple[Any, Any]:
    """What comes out for a text, and its mask."""
    import torch
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(FOLDER / "minilm" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokens = torch.tensor([tokenizer.encode(text).ids])
    return model(tokens).last_hidden_state, torch.ones_like(tokens)


def _vectors(hidden: Any, mask: Any, ways: tuple[str, ...]) -> Any:
    import torch

    there = mask.unsqueeze(-1).to(hidden.dtype)
    if "cls" in ways:
        vectors = hidden[:, 0]
    elif "max" in ways:
        vectors = torch.where(there > 0, hidden, -1e9).max(1).values
    else:
        vectors = (hidden * there).sum(1) / there.sum(1)
    return torch.nn.functional.normalize(vectors) if "normalise" in ways else vectors


def main() -> None:
    from safetensors.numpy import save_file

    for name in sys.argv[1:] or MODELS:
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        written(name)
        save_file(expected(name), FOLDER / name / "expected.safetensors")


if __name__ == "__main__":
    main()
