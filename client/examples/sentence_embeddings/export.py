"""A transformer of PyTorch makes vectors of sentences: those that share words are near.

eigentensor run encoder.onnx -i @input.safetensors --wait checked -o output.safetensors

`cmp output.safetensors expected.safetensors` says nothing: these are the bits. original.safetensors is what PyTorch
computes. Its weights are drawn, not learnt. All but expected.safetensors is written by this file (PyTorch 2.13 with
onnxscript), which prints how near the sentences are.
"""

from zlib import crc32

import torch
from safetensors.numpy import save_file
from torch import nn

WORDS, LENGTH, WIDTH, HEADS = 256, 12, 32, 4
SENTENCES = (
    "the verifier executed the program again",
    "the program was executed by a verifier",
    "a bond is paid back when the game is won",
    "heat spreads on a cold plate",
)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.places.weight.data *= 0.1
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, activation="gelu", batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """A vector of length 1 for each row of tokens; 0 is no word."""
        x = self.words(tokens) + self.places(torch.arange(LENGTH))
        x = self.layer(x, src_key_padding_mask=tokens == 0)
        words = (tokens != 0).unsqueeze(-1).to(x.dtype)
        return nn.functional.normalize((x * words).sum(1) / words.sum(1), dim=-1)


def tokens_of(sentence: str) -> list[int]:
    tokens = [1 + crc32(word.encode()) % (WORDS - 1) for word in sentence.split()]
    return tokens + [0] * (LENGTH - len(tokens))


torch.manual_seed(4)
model = Encoder().eval()
tokens = torch.tensor([tokens_of(sentence) for sentence in SENTENCES])
with torch.no_grad():
    vectors = model(tokens)
for row in (vectors @ vectors.T).tolist():
    print(" ".join(f"{value:5.2f}" for value in row))

names = {"input_names": ["tokens"], "output_names": ["vectors"]}
exported = torch.onnx.export(model, (tokens,), **names, dynamic_shapes=({0: "rows"},))
for node in exported.model.graph:
    node.metadata_props.clear()  # which line of which file it comes from
exported.save("encoder.onnx", external_data=True)
save_file({"tokens": tokens.numpy()}, "input.safetensors")
save_file({"vectors": vectors.numpy()}, "original.safetensors")
