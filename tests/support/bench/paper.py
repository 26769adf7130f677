"""On paper: language models on 8 and 72 GPUs, by the plans that a cluster would execute, times stated constants.

scripts/bench paper [--flops N]    transfers against computing, and the scaling that follows; two to three minutes

Programs of one and of two blocks are captured at full width, without a weight's bytes, and planned for so many workers;
each further block takes what the second one takes more. What is computed, moved and waited for is read off the plan's
own lists, step by step. Embeddings and scores are left out, 3 to 5 in a hundred weights. Nothing is executed.
"""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from tinygrad import Tensor, UOp, nn

from eigentensor.capture import capture
from eigentensor.program.bounds import prove
from eigentensor.program.model import Body, Program
from eigentensor.program.ops import Op
from eigentensor.program.structure import cone, reductions
from eigentensor.sharding.cluster import HERE, Cluster, Link
from eigentensor.sharding.layout import box_bytes, volumes
from eigentensor.sharding.plan import Compute, Copy, Plan, Receive, Send, plan
from support.bench.pairs import say
from support.programs.models import Decoder, Layer
from support.programs.sharded import Step

NODE = 8  #: GPUs that NVLink joins
ROOM = 80 << 30  #: bytes of a GPU
FLOPS, MEMORY = 0.4 * 67e12, 0.8 * 3.35e12  #: a second of a GPU, and bytes of its memory
LINKS, DELAYS = (0.8 * 450e9, 0.8 * 50e9), (5e-6, 1e-5)  #: bytes a second and seconds, of NVLink and network
CONSTANTS = """\
a GPU       {flops:.3g} FLOP/s    float32 without tensor cores, since a sum has one order and one rounding a term:
                             0.4 of the 67e12 in the data sheet of the H100 SXM, unless --flops says what was measured;
                             an H200 reached 35.1e12 in a product of 4096² (`scripts/gpu`)
its memory  {memory:.3g} bytes/s  0.8 of the data sheet's 3.35e12
NVLink      {links[0]:.3g} bytes/s   each way, among 8 GPUs of a node: 0.8 of the data sheet's 900e9 for both ways
network     {links[1]:.3g} bytes/s     each way, for each GPU between nodes: 0.8 of its 400 Gb/s card in a DGX H100
a message   {delays[0]:.3g}, {delays[1]:.3g} s  before its first byte comes, over NVLink, over the network
Of these, 0.4, 0.8 and the seconds of a message are assumed.

"""
HEAD = (
    "", "calls", "plan, s", "hold, GB", "NVLink, GB", "network, GB", "compute, ms", "wait, ms", "wait/comp.", "times",
)  # fmt: skip


class Blocks:
    """Some blocks of a decoder, one behind the other."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        self.blocks = blocks

    def __call__(self, x: Tensor, *position: UOp) -> Tensor:
        for block in self.blocks:
            x = block(x, *position)
        return x


@dataclass(frozen=True)
class Case:
    """A model's shape, and what so many GPUs do: a step of training on `rows` sequences of so many tokens, or, without
    rows, the next token behind as many."""

    name: str
    layers: int
    width: int
    heads: int
    tokens: int
    gpus: int
    rows: int = 0


@cache
def program_of(width: int, heads: int, tokens: int, rows: int, blocks: int) -> Program:
    """Of so many blocks of a `Case`."""
    if rows:
        network = Blocks([Layer(width, heads, causal=True) for _ in range(blocks)])
        model = Step(_without_bytes(network), nn.optim.Adam)
        inputs = {"x": Tensor.empty(rows, tokens, width)}
        return capture(lambda x: model(x), inputs, model, fingerprint=False, shards=rows).program
    made = _without_bytes(Blocks([Decoder(width, heads, tokens) for _ in range(blocks)]))
    inputs, limits = {"x": Tensor.empty(1, 1, width)}, {"position": (0, tokens - 1)}
    return capture(lambda x, position: made(x, position), inputs, made, variables=limits, fingerprint=False).program


def _without_bytes(network: Blocks) -> Blocks:
    for tensor in nn.state.get_state_dict(network).values():
        tensor.replace(Tensor.empty(*tensor.shape))
    return network


CASES = [
    Case(f"{name}, {f'{rows} × {tokens:,} tokens' if rows else 'a token'}", layers, width, heads, tokens, gpus, rows)
    for name, layers, width, heads, tokens in (("GPT-2-XL", 48, 1600, 25, 1024), ("7 B", 32, 4096, 32, 1024))
    for gpus, rows in ((8, 8), (72, 64), (8, 0), (72, 0))
]


class Figures(NamedTuple):
    """Of one iteration: bytes that the largest worker holds; bytes that all send over NVLink and over the network;
    seconds that the busiest worker computes, that all of it takes, and that one worker alone would take."""

    held: float
    near: float
    far: float
    computing: float
    passed: float
    alone: float

    def with_more(self, second: "Figures", count: int) -> "Figures":
        """These with so many more blocks, each of which takes what the second one takes more."""
        return Figures(*(first + count * (two - first) for first, two in zip(self, second, strict=True)))


class Clock:
    """When each worker is done with each step of its list, if nothing else is going on."""

    def __init__(self, program: Program, planned: Plan, flops: float) -> None:
        count = len(planned.workers)
        self.planned, self.flops, self.cluster = planned, flops, Cluster(program, count)
        self.seconds = [self._seconds(call) for call in range(len(program.calls))]
        self.lists = [(*of.steps, *of.renewing) for of in planned.workers]
        self.now, self.computing, self.moved = [0.0] * count, [0.0] * count, [0.0, 0.0]
        self.sends, self.takes = ([[0.0, 0.0] for _ in range(count)] for _ in range(2))  # when links are free again
        self.comes: dict[tuple[int, int, int], float] = {}  # when messages are there
        self._run()

    def _seconds(self, call: int) -> list[float]:
        """What each worker takes for its box of a call: what computing takes, or its memory, whichever is more."""
        cluster, program = self.cluster, self.cluster.program
        buffer, body = len(program.buffers) + call, program.bodies[program.calls[call].body]
        layout = cluster.layout(call, self.planned.places[call])
        traffic = [made * cluster.sizes[buffer] for made in volumes(layout)]
        for argument, need in cluster.needs(call, layout):
            traffic = [of + read * cluster.sizes[argument] for of, read in zip(traffic, volumes(need), strict=True)]
        each = flops_of(body) / self.flops
        return [max(made * each, of / MEMORY) for made, of in zip(volumes(layout), traffic, strict=True)]

    def _run(self) -> None:
        """Worker after worker, the one that is behind the others first; who waits for a message goes on when it is
        sent."""
        at, asleep = [0] * len(self.lists), dict[tuple[int, int, int], int]()
        ready = [(0.0, worker) for worker in range(len(self.lists))]
        heapify(ready)
        while ready:
            _, worker = heappop(ready)
            if at[worker] == len(self.lists[worker]):
                continue
            step = self.lists[worker][at[worker]]
            if isinstance(step, Receive):
                message = step.worker, worker, step.number
                if message not in self.comes:
                    asleep[message] = worker
                    continue
                self.now[worker] = max(self.now[worker], self.comes[message])
            elif isinstance(step, Send):
                message = worker, step.worker, step.number
                self._send(worker, step, message)
                if message in asleep:
                    heappush(ready, (self.now[asleep[message]], asleep.pop(message)))
            else:
                self._work(worker, step)
            at[worker] += 1
            heappush(ready, (self.now[worker], worker))

    def _send(self, worker: int, step: Send, message: tuple[int, int, int]) -> None:
        """Who sends does not wait. Messages leave one after the other, and come so: whatever leaves or comes elsewhere
        hinders none."""
        link = int(worker // NODE != step.worker // NODE)
        size = box_bytes(step.box, self._size(worker, step.source))
        takes, leaves, comes = size / LINKS[link], self.sends[worker], self.takes[step.worker]
        begun = max(self.now[worker], leaves[link])
        leaves[link] = begun + takes
        comes[link] = max(begun, comes[link]) + takes
        self.comes[message] = comes[link] + DELAYS[link]
        self.moved[link] += size

    def _work(self, worker: int, step: Compute | Copy) -> None:
        if isinstance(step, Copy):
            took = 2 * box_bytes(step.box, self._size(worker, step.source)) / MEMORY
        else:
            took = self.seconds[step.call][worker]
            self.computing[worker] += took
        self.now[worker] += took

    def _size(self, worker: int, piece: int) -> int:
        return self.cluster.sizes[self.planned.workers[worker].pieces[piece].buffer]


@lru_cache(maxsize=256)
def flops_of(body: Body) -> float:
    """Floating-point operations for an element of a body's result."""
    extents: dict[int, int] = {}
    for r, (_, largest) in zip(body.reduce_ranges, prove(body).extents, strict=True):
        extents[r.reduction] = extents.get(r.reduction, 1) * largest
    total = _float_operations(body, [len(body.instructions) - 1])
    for number, at in enumerate(reductions(body)):
        instruction = body.instructions[at]
        own = (2 if instruction.op is Op.REDUCE_MULACC else 1) if instruction.dtype.is_float else 0
        total += extents[number] * (own + _float_operations(body, instruction.values))
    return float(total)


def _float_operations(body: Body, roots: Sequence[int]) -> int:
    used = (body.instructions[number] for number in cone(body, roots))
    return sum(2 if i.op is Op.MULACC else 1 for i in used if i.dtype.is_float and Op.ADD <= i.op <= Op.TRUNC)


def link_of(gpus: int) -> Link:
    """What joins so many GPUs, as it is planned for: the network, where they are in several nodes."""
    link = int(gpus > NODE)
    evaluations = round(HERE.evaluations * LINKS[0] / LINKS[link])
    return HERE._replace(evaluations=evaluations, latency=round(DELAYS[link] * LINKS[link]))


def figures(program: Program, gpus: int, memory: int, flops: float) -> tuple[Figures, float]:
    """Of a program on so many GPUs with so much memory, and on one that has room for it; and seconds of planning."""
    start = time.process_time()
    planned = plan(program, gpus, memory=memory, link=link_of(gpus))
    took = time.process_time() - start
    clock, alone = Clock(program, planned, flops), Clock(program, plan(program, 1), flops)
    near, far = clock.moved
    return Figures(planned.held, near, far, max(clock.computing), max(clock.now), max(alone.now)), took


def row(case: Case, flops: float) -> None:
    """A model's line; the memory that a GPU has is shared among the blocks."""
    programs = [program_of(case.width, case.heads, case.tokens, case.rows, blocks) for blocks in (1, 2)]
    (one, _), (two, took) = (
        figures(program, case.gpus, ROOM * blocks // case.layers, flops) for blocks, program in enumerate(programs, 1)
    )
    held, near, far, computing, passed, alone = one.with_more(two, case.layers - 1)
    waiting = passed - computing
    say(
        f"{case.name}, {case.gpus} GPUs", len(programs[1].calls), f"{took:.1f}", f"{held / 1e9:.1f}",
        f"{near / 1e9:.3g}", f"{far / 1e9:.3g}", f"{1e3 * computing:.1f}", f"{1e3 * waiting:.1f}",
        f"{waiting / computing:.2f}", f"{alone / passed:.1f}", widths=(40,),
    )  # fmt: skip


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--flops", type=float, default=FLOPS, help="float32 FLOP/s that a GPU reaches")
    flops = parser.parse_args().flops
    sys.stdout.write(CONSTANTS.format(flops=flops, memory=MEMORY, links=LINKS, delays=DELAYS))
    say(*HEAD, widths=(40,))
    for case in CASES:
        row(case, flops)


if __name__ == "__main__":
    main()
