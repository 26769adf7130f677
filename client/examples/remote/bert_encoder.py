"""An encoder of BERT's shape, tiny and with random weights, says how near sentences are to each other."""

from tinygrad import Tensor, nn

import eigentensor as et

Tensor.manual_seed(11)
WORDS, LENGTH, WIDTH, HEADS = 100, 8, 32, 4


class Layer:
    def __init__(self):
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.attention_norm, self.output_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        heads = (
            f(x).reshape(-1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        mixed = Tensor.scaled_dot_product_attention(*heads, attn_mask=mask.reshape(-1, 1, 1, LENGTH))
        x = self.attention_norm(x + self.out(mixed.transpose(1, 2).reshape(-1, LENGTH, WIDTH)))
        return self.output_norm(x + self.down(self.up(x).gelu()))


class Encoder:
    def __init__(self):
        self.words, self.places, self.norm = (
            nn.Embedding(WORDS, WIDTH),
            nn.Embedding(LENGTH, WIDTH),
            nn.LayerNorm(WIDTH),
        )
        self.layers = [Layer(), Layer()]

    def __call__(self, tokens: Tensor) -> Tensor:
        x, mask = self.norm(self.words(tokens) + self.places.weight), tokens != 0
        for layer in self.layers:
            x = layer(x, mask)
        total = (x * mask.unsqueeze(-1)).sum(axis=1)
        return total / total.square().sum(axis=1, keepdim=True).sqrt()


encoder = Encoder()


@et.function(max_price="0.05", wait="checked")
def encode(tokens: Tensor) -> Tensor:
    return encoder(tokens)


sentences = Tensor(
    [[5, 9, 12, 0, 0, 0, 0, 0], [5, 9, 12, 40, 0, 0, 0, 0], [61, 62, 63, 64, 65, 66, 67, 68]], dtype="int32"
)
vectors = encode.remote(sentences)
for row in (vectors @ vectors.T).tolist():
    print(" ".join(f"{value:.3f}" for value in row))
