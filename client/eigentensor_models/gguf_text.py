"""A GGUF file's text: a tokenizer, of byte pairs or as SentencePiece has it, and the template of its metadata."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from eigentensor.errors import ConfigError
from eigentensor_models.text import Text

_FIX = "Take the model's folder, with its tokenizer.json."
_CONTROL, _OWN = 3, 4  # kinds of tokens: what nobody types, what its author added
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
#: How texts are split before byte pairs are joined, by `tokenizer.ggml.pre`; none: as GPT-2 does.
_PATTERNS = {
    "qwen2": _WORDS + r"\p{N}" + _REST,
    "llama-bpe": _WORDS + r"\p{N}{1,3}" + _REST,
    "gpt-2": None,
    "smollm": None,
}
_WORK = 1 << 30  # letters that are looked at to find what tokens are made of
_SPECIAL = {"bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding"}  # as the format spells
#: Tokens that end an answer, whatever else a file says.
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>")


def text_of(metadata: Mapping[str, Any], what: str) -> tuple[Text, list[int]]:
    """The text of a file, and the tokens that end an answer. Raises ConfigError for a tokenizer that is malformed, or
    of a kind that is not known."""
    kind = metadata.get("tokenizer.ggml.model")
    tokens, kinds = (_list(metadata, word, what) for word in ("tokens", "token_type"))
    vocabulary = {token: number for number, token in enumerate(tokens) if type(token) is str}
    if not len(vocabulary) == len(tokens) == len(kinds):
        raise ConfigError(f"{what}: its tokens are not texts, each once and of some kind", fix=_FIX)
    special = {}
    for name, word in _SPECIAL.items():
        number = metadata.get(f"tokenizer.ggml.{word}_token_id")
        if type(number) is int and 0 <= number < len(tokens):
            special[f"{name}_token"] = tokens[number]
    if kind == "gpt2":
        made = _byte_pairs(metadata, vocabulary, what)
    elif kind == "llama":
        made = _pieces(metadata, vocabulary, special, what)
    else:
        raise ConfigError(f"{what}: tokenizers of the kind {str(kind)[:80]!r} are not known here", fix=_FIX)
    made["added_tokens"] = [
        {"id": number, "content": tokens[number], "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": one == _CONTROL}
        for number, one in enumerate(kinds) if one in (_CONTROL, _OWN)
    ]  # fmt: skip
    begins = metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")
    if begins and "bos_token" in special:
        made["post_processor"] = _beginning(special["bos_token"], vocabulary[special["bos_token"]])
    template = metadata.get("tokenizer.chat_template")
    text = Text(json.dumps(made), template if isinstance(template, str) else None, special)
    text.encode("x")
    return text, _ends(metadata, tokens, kinds, what)


def _ends(metadata: Mapping[str, Any], tokens: Sequence[str], kinds: Sequence[int], what: str) -> list[int]:
    named = [metadata.get(f"tokenizer.ggml.{word}_token_id") for word in ("eos", "eot", "eom")]
    ends = [number for number in named if type(number) is int and 0 <= number < len(tokens)]
    ends += [n for n, token in enumerate(tokens) if token in _ENDS and kinds[n] in (_CONTROL, _OWN)]
    if not ends:
        raise ConfigError(f"{what} says nowhere which token ends an answer", fix=_FIX)
    return list(dict.fromkeys(ends))


def _byte_pairs(metadata: Mapping[str, Any], vocabulary: Mapping[str, int], what: str) -> dict[str, Any]:
    split = metadata.get("tokenizer.ggml.pre")
    if not isinstance(split, str) or split not in _PATTERNS:
        raise ConfigError(f"{what}: the way {str(split)[:80]!r} of splitting texts is not known here", fix=_FIX)
    merges = [merge.split(" ") for merge in _list(metadata, "merges", what) if isinstance(merge, str)]
    for merge in merges:
        if len(merge) != 2 or not {*merge, "".join(merge)} <= vocabulary.keys():
            raise ConfigError(f"{what}: {' '.join(merge)[:80]!r} joins no tokens", fix=_FIX)
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    before: list[dict[str, Any]] = [letters | {"use_regex": _PATTERNS[split] is None}]
    if pattern := _PATTERNS[split]:
        before.insert(0, {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False})
    if split == "smollm":
        before.insert(0, {"type": "Digits", "individual_digits": True})
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "ignore_merges": split == "llama-bpe"}
    return {
        "version": "1.0",
        "normalizer": {"type": "NFC"} if split == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": before},
        "decoder": letters,
        "model": model,
    }


def _pieces(
    metadata: Mapping[str, Any], vocabulary: Mapping[str, int], special: Mapping[str, str], what: str
) -> dict[str, Any]:
    """Pieces are joined whose whole has the largest score: the same as merges in that order."""
    scores = _list(metadata, "scores", what)
    numbers = all(type(score) in (int, float) for score in scores)
    if not numbers or len(scores) != len(vocabulary) or sum(len(token) ** 2 for token in vocabulary) > _WORK:
        raise ConfigError(f"{what}: not every token has a score, or some are very long", fix=_FIX)
    merges: list[tuple[float, int, int, int, int, int, str, str]] = []
    for token, number in vocabulary.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                order = (-len(left), -len(right), number, vocabulary[left], vocabulary[right])
                merges.append((-scores[number], *order, left, right))
    merges.sort()
    prefixed = metadata.get("tokenizer.ggml.add_space_prefix", True)
    normal: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    back: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}]
    back += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefixed:
        normal.insert(0, {"type": "Prepend", "prepend": "▁"})
        back.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    model = {"type": "BPE", "vocab": vocabulary, "merges": [merge[-2:] for merge in merges], "byte_fallback": True}
    model |= {"unk_token": special.get("unk_token"), "fuse_unk": True}
    return {
        "version": "1.0",
        "normalizer": {"type": "Sequence", "normalizers": normal},
        "decoder": {"type": "Sequence", "decoders": back},
        "model": model,
    }


def _beginning(token: str, number: int) -> dict[str, Any]:
    """What puts a token before each text."""
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    single, second = ({"Sequence": {"id": word, "type_id": kind}} for word, kind in (("A", 0), ("B", 1)))
    return {
        "type": "TemplateProcessing",
        "single": [special, single],
        "pair": [special, single, second],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def _list(metadata: Mapping[str, Any], word: str, what: str) -> list[Any]:
    values = metadata.get(f"tokenizer.ggml.{word}")
    if not isinstance(values, list):
        raise ConfigError(f"{what} has no list tokenizer.ggml.{word}", fix=_FIX)
    return values
