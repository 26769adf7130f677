"""A decoder of GPT-2's shape, tiny and with random weights, writes tokens: keys and values stay in its cache."""

from tinygrad import Tensor, UOp, nn

Tensor.manual_seed(4)
WORDS, LENGTH, WIDTH, HEADS = 50, 16, 32, 4


class Block:
    def __init__(self):
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.c_out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.cache = Tensor.zeros(2, LENGTH, HEADS, WIDTH // HEADS).contiguous().realize()

    def __call__(self, x: Tensor, position: UOp) -> Tensor:
        query, *new = self.c_attn(self.ln_1(x)).reshape(3, 1, HEADS, WIDTH // HEADS).chunk(3)
        self.cache[:, position : position + 1].assign(new[0].cat(new[1]))
        keys, values = self.cache[0, : position + 1].transpose(0, 1), self.cache[1, : position + 1].transpose(0, 1)
        scores = (query[0].transpose(0, 1) @ keys.transpose(1, 2) * (WIDTH // HEADS) ** -0.5).softmax()
        x = x + self.c_proj((scores @ values).transpose(0, 1).reshape(1, WIDTH))
        return x + self.c_out(self.c_fc(self.ln_2(x)).gelu())


class Decoder:
    def __init__(self):
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.ln_f = [Block(), Block()], nn.LayerNorm(WIDTH)

    def __call__(self, token: Tensor, position: UOp) -> Tensor:
        x = self.wte(token) + self.wpe.weight[position : position + 1]
        for block in self.blocks:
            x = block(x, position)
        return self.ln_f(x) @ self.wte.weight.T


decoder = Decoder()


def write(token: Tensor, position: UOp) -> Tensor:
    return decoder(token, position).argmax(axis=-1).cast("int32")


tokens = [7]
for place in range(4):
    token = write(Tensor([tokens[-1]], dtype="int32"), UOp.variable("position", 0, LENGTH - 1).bind(place))
    tokens.append(token.item())
print("tokens", *tokens)
