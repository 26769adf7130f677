"""tests/vectors/model_texts: models with tokenizers and templates, and what transformers makes of texts and chats.

python -m support.vectors.model_texts    # in tests/, where PyTorch and transformers are

A folder is a model as `save_pretrained` writes it; `expected.json` has the tokens of texts, chats as the template
renders them, the tokens and the greedy answer of the first, and how long the text is after each token of the answer.
`templates.json` holds templates of families as they are in use, with what each renders, or that it refuses.
"""

import json
import shutil
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors" / "model_texts"
README = Path(__file__).parents[3] / "README.md"
ANSWER = 40  # tokens
TEXTS = [
    "A program has one meaning, bit by bit.", "", " leading and  double spaces\n\nand lines\t",
    "naïve Ümläute — 漢字 🙂", "<|im_start|>user", "</s>", "1234567 + 89 = ?", "def f(x):\n    return x",
]  # fmt: skip
CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "What is a program?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who pays? "},
     {"role": "assistant", "content": "The client."}, {"role": "user", "content": "And <b>then</b>?"}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "tool", "content": "42"}],
]  # fmt: skip
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
INST = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "inst": INST,
    "headers": (
        "{{- bos_token }}\n{%- set date_string = '26 Jul 2024' %}\n"
        "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n"
        "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n"
        "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: \" + date_string + \"\\n\\n\" }}\n"
        "{{- system_message }}{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n"
        "    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}\n"
        "        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim"
        " + '<|eot_id|>' }}\n    {%- else %}\n        {{- message.content | tojson }}\n    {%- endif %}\n"
        "{%- endfor %}\n{%- if add_generation_prompt %}\n"
        "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n"
    ),
    "turns": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
        "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"
        "{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
    ),
    "namespace": (
        "{%- set ns = namespace(last=-1, found=false) %}{%- for m in messages[::-1] %}\n"
        "    {%- set index = (messages|length - 1) - loop.index0 %}\n"
        "    {%- if not ns.found and m.role == \"user\" and m.content is string %}\n"
        "        {%- set ns.found = true %}{%- set ns.last = index %}{%- break %}\n    {%- endif %}\n{%- endfor %}\n"
        "{{- ns.last }}:{% for m in messages %}{% generation %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
        "{% endgeneration %}|{% endfor %}{{ tools is none }} {{ messages | tojson(indent=2) }}"
    ),
    "block": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n<|user|>\n{{ message['content'] }}<|end|>\n"
        "{% elif message['role'] == 'assistant' %}\n<|assistant|>\n{{ message['content'] }}<|end|>\n{% endif %}\n"
        "{% endfor %}\n{% if add_generation_prompt %}\n<|assistant|>\n{% else %}\n{{ eos_token }}\n{% endif %}\n"
    ),
    "macro": (
        "{% macro show(m) %}[{{ m.role | upper }}] {{ m['content'] }}{% endmacro %}{% for m in messages %}"
        "{{ show(m) }}{{ '\n' if not loop.last }}{% endfor %}{{ undefined_thing }}{{ bos_token is defined }}"
    ),
}  # fmt: skip


def byte_level() -> Any:
    """A tokenizer as Qwen's: bytes as letters, words split by a pattern, nothing before a text."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    pattern += r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    as_letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, as_letters])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=380, initial_alphabet=letters, special_tokens=["<|endoftext|>"])
    tokenizer.train_from_iterator([README.read_text()], trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer


def pieces() -> Any:
    """A tokenizer as Llama's of SentencePiece: spaces are letters, unknown characters bytes, <s> before a text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, limit_alphabet=60)
    tokenizer.train_from_iterator([README.read_text()], trainer)
    saved = json.loads(tokenizer.to_str())
    saved["added_tokens"] = [one for one in saved["added_tokens"] if one["content"] in ("<unk>", "<s>", "</s>")]
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in ("<unk>", "<s>", "</s>")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def written(name: str) -> None:
    """Writes a folder with all that people have, and what transformers makes of it."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    if name == "qwen2":
        special = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level(), chat_template=CHATML, **special)
    else:
        special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces(), chat_template=INST, **special)
    sizes = {"vocab_size": len(tokenizer) + 5, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
             "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
             "pad_token_id": tokenizer.pad_token_id, "tie_word_embeddings": True}  # fmt: skip
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 1.5 * parameter.shape[1] ** -0.5) if parameter.ndim == 2 else None
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "expected.json").write_text(json.dumps(expected(folder), ensure_ascii=False) + "\n")


def expected(folder: Path) -> dict[str, Any]:
    """What transformers makes of texts and chats with the files of a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    prompt = tokenizer.apply_chat_template(CHATS[0], add_generation_prompt=True, return_dict=False)
    with torch.no_grad():
        whole = model.generate(torch.tensor([prompt]), max_new_tokens=ANSWER, do_sample=False)[0].tolist()
    answer = whole[len(prompt) :]
    return {
        "texts": [[text, tokenizer.encode(text)] for text in TEXTS],
        "chats": [[chat, rendered(tokenizer, chat)] for chat in CHATS],
        "prompt": prompt,
        "answer": answer,
        "text": tokenizer.decode(answer, skip_special_tokens=True),
    }


def rendered(tokenizer: Any, chat: list[dict[str, str]], template: str | None = None) -> str | None:
    """A chat as transformers renders it; None if the template refuses it."""
    import jinja2

    try:
        whole: str = tokenizer.apply_chat_template(
            chat, chat_template=template, add_generation_prompt=True, tokenize=False
        )
        return whole
    except jinja2.TemplateError:
        return None


def main() -> None:
    from transformers import PreTrainedTokenizerFast

    for name in ("qwen2", "llama"):
        written(name)
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces(), **special)
    rows = [[name, template, [[chat, rendered(tokenizer, chat, template)] for chat in CHATS]]
            for name, template in TEMPLATES.items()]  # fmt: skip
    text = json.dumps({"special": special, "templates": rows}, ensure_ascii=False, indent=1)
    (FOLDER / "templates.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
