"""The other side of `scripts/bench llm`: it needs the library gguf, and for times llama-cpp-python, nothing of ours.

PYTHON llm_peer.py write FILE SHAPE KIND      # a GGUF file of random weights; SHAPE is JSON
PYTHON llm_peer.py decode FILE THREADS COUNT  # for each line that comes in, the times of writing so many tokens
"""

import ctypes
import json
import sys
import time
from typing import Any

import numpy as np

#: Bytes of a block, elements of it, where in it there are halves, and what its integers are in the mean.
BLOCKS = {
    "Q8_0": (34, 32, (0,), 74.0), "Q4_0": (18, 32, (0,), 4.6), "Q4_K": (144, 256, (0, 2), 300.0),
    "Q6_K": (210, 256, (208,), 1300.0),
}  # fmt: skip


def write(path: str, shape: dict[str, Any], kind: str) -> None:
    """Matrices of a kind, words in Q6_K beside Q4_K as llama.cpp's own files have them, vectors in float32."""
    import gguf

    random, arch = np.random.default_rng(0), shape["arch"]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(shape["layers"])
    writer.add_context_length(4096)
    writer.add_embedding_length(shape["width"])
    writer.add_feed_forward_length(shape["hidden"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["key_heads"])
    writer.add_key_length(shape["size"])
    writer.add_value_length(shape["size"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    if arch == "gemma3":
        writer.add_sliding_window(512)
    writer.add_vocab_size(shape["vocabulary"])
    writer.add_tokenizer_model("no_vocab")

    def matrix(name: str, rows: int, columns: int, of: str = kind) -> None:
        if of == "F32":
            writer.add_tensor(name, random.standard_normal((rows, columns), np.float32) * columns**-0.5)
            return
        size, elements, halves, mean = BLOCKS[of]
        made = random.integers(0, 256, (rows * columns // elements, size), np.uint8)
        for place in halves:
            scale = np.full(len(made), columns**-0.5 / mean, np.float16)
            made[:, place : place + 2] = scale.view(np.uint8).reshape(-1, 2)
        writer.add_tensor(name, made.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType[of])

    def vector(name: str, size: int) -> None:
        writer.add_tensor(name, np.ones(size, np.float32))

    width, hidden = shape["width"], shape["hidden"]
    queries, keys = shape["heads"] * shape["size"], shape["key_heads"] * shape["size"]
    matrix("token_embd.weight", shape["vocabulary"], width, "Q6_K" if kind == "Q4_K" else kind)
    vector("output_norm.weight", width)
    norms = ("attn_norm", "ffn_norm", *(("post_attention_norm", "post_ffw_norm") if arch == "gemma3" else ()))
    for layer in range(shape["layers"]):
        at = f"blk.{layer}."
        for name in norms:
            vector(f"{at}{name}.weight", width)
        for name in ("attn_q_norm", "attn_k_norm"):
            vector(f"{at}{name}.weight", shape["size"])
        for name, rows, columns in (
            ("attn_q", queries, width), ("attn_k", keys, width), ("attn_v", keys, width),
            ("attn_output", width, queries), ("ffn_gate", hidden, width), ("ffn_up", hidden, width),
            ("ffn_down", width, hidden),
        ):  # fmt: skip
            matrix(f"{at}{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def decode(path: str, threads: int, count: int) -> None:
    """Seconds by the clock and of the processor for so many tokens, one at a time, from an empty text on."""
    import llama_cpp as api

    silent = api.llama_log_callback(lambda *_: None)
    api.llama_log_set(silent, ctypes.c_void_p(0))
    api.llama_backend_init()
    model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
    options = api.llama_context_default_params()
    options.n_ctx, options.n_threads, options.n_threads_batch = 256, threads, threads
    context = api.llama_init_from_model(model, options)
    vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        api.llama_memory_clear(api.llama_get_memory(context), True)
        token = (api.llama_token * 1)(1)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            if api.llama_decode(context, api.llama_batch_get_one(token, 1)):
                raise RuntimeError("llama.cpp cannot decode")
            scores = np.ctypeslib.as_array(api.llama_get_logits(context), (vocabulary,))
            token[0] = int(scores.argmax())
        sys.stdout.write(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    command, path, *rest = sys.argv[1:]
    if command == "write":
        write(path, json.loads(rest[0]), rest[1])
    else:
        decode(path, int(rest[0]), int(rest[1]))
