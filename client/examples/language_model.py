"""A language model that learns this project's front page and writes: here, or as paid tasks that others check.

python client/examples/language_model.py train
python client/examples/language_model.py write "A program" " and an operator" --temperature 0.7 --seed 1 [--paid]
"""

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from eigentensor.capture import GraphProgram
from eigentensor.chain import to_wei
from eigentensor.errors import BlobNotFound, EigenTensorError
from eigentensor.graph import Graph
from eigentensor.runtime import CompiledGraph
from eigentensor_client import Client, byte_pairs
from eigentensor_client.byte_pairs import END, BytePairs
from eigentensor_client.cli import exit_code, report
from eigentensor_client.orders import Terms
from eigentensor_client.session import Session
from eigentensor_client.writing import LIMITS, SAMPLED, Arrays, Executor, Sampling, Text
from language.decoder import SMALL, drawn
from language.training import Batch, taught
from language.writing import writing, written_graph

README = Path(__file__).parents[2] / "README.md"
FILE = Path("language_model.safetensors")
TOKENIZER, MODEL = Path("language_model.tokenizer.json"), Path("language_model.json")
BATCH = Batch(rows=4, length=192)
STEPS = 400
TERMS = Terms(to_wei("0.05"), exec=60)


def train(steps: int = STEPS) -> None:
    """Writes FILE: the weights, and the merges of the tokenizer; and what `eigentensor deploy` wants of a chat app."""
    text = README.read_text()
    pairs = byte_pairs.trained(text, SMALL.vocabulary)
    tokens = np.array([END, *pairs.encode(text), END], np.int32)

    def progress(step: int, loss: float) -> None:
        print(f"step {step:4}  loss {loss:.3f}", file=sys.stderr)

    weights = taught(drawn(SMALL), BATCH, tokens, steps, progress)
    save_file({"merges": np.array(pairs.merges, np.int32), **weights}, FILE)
    TOKENIZER.write_bytes(pairs.to_bytes())
    MODEL.write_text(json.dumps({"schema": "eigentensor.model/1", "kind": "chat", "tokenizer": str(TOKENIZER)}) + "\n")


def learnt() -> tuple[Arrays, BytePairs]:
    """The weights of FILE, and the tokenizer."""
    if not FILE.exists():
        raise BlobNotFound(f"there is no {FILE} here", fix=f"`python {__file__} train` makes it.")
    tensors = load_file(FILE)
    pairs = BytePairs(tuple((int(a), int(b)) for a, b in tensors.pop("merges")))
    return tensors, pairs


def load() -> tuple[GraphProgram, BytePairs]:
    """The program with its weights, and the tokenizer."""
    tensors, pairs = learnt()
    graph = writing(drawn(SMALL), limits=True)
    return GraphProgram(graph.program, tensors, graph.states), pairs


def program() -> GraphProgram:
    """What `eigentensor program capture client/examples/language_model.py` writes, with weights and first states."""
    return load()[0]


def graph() -> Graph:
    """What `eigentensor optimise client/examples/language_model.py --tolerance 1e-4 --max-repeat 192` plans."""
    untrained = written_graph(drawn(SMALL), limits=True)
    return replace(untrained, data={**untrained.data, **learnt()[0]})


def here(graph: GraphProgram) -> Executor:
    """Executes on this machine; the states stay on the device."""
    compiled = CompiledGraph(graph.program, {**graph.weights, **graph.states}, keep_states=True)
    return lambda inputs, variables, repeat: compiled.run(inputs, variables, repeat).outputs["output"]


def paid(session: Session) -> Executor:
    """Has others execute it: a task each time, which a third one checks; the states stay at the gateway."""

    def execute(inputs: Arrays, variables: Mapping[str, int], repeat: int) -> np.ndarray:
        result = session.run(inputs, variables=variables, repeat=repeat, stage="checked")
        print(f"task {result.uuid}  {result.task.words}  executor {result.executor}", file=sys.stderr)
        return result.outputs["output"]

    return execute


def write(prompts: list[str], count: int, sampling: Sampling, *, pay: bool) -> None:
    """Each prompt goes on where the text before it ended."""
    graph, pairs = load()
    with ExitStack() as stack:
        if pay:
            client = stack.enter_context(Client())
            execute = paid(client.session(graph.program, dict(graph.weights), dict(graph.states), TERMS))
        else:
            execute = here(graph)
        text = Text(pairs, SMALL.context, execute, (*SAMPLED, *LIMITS))
        for prompt in prompts:
            print(text.write(prompt, count, sampling), end="", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description="A language model that has read this project's front page.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("train").add_argument("--steps", type=int, default=STEPS)
    writer = verbs.add_parser("write")
    writer.add_argument("prompts", nargs="+", metavar="PROMPT")
    writer.add_argument("--tokens", type=int, default=64, help="how many come after each prompt [64]")
    writer.add_argument("--temperature", type=float, default=0.0, help="0: always the likeliest [0]")
    writer.add_argument("--least", type=float, default=0.0, help="how likely at least, beside the likeliest [0]")
    writer.add_argument("--top-k", type=int, default=0, help="only so many of the likeliest; 0: all [0]")
    writer.add_argument("--top-p", type=float, default=1.0, help="only the likeliest that are so likely together [1]")
    writer.add_argument("--seed", type=int, default=0)
    writer.add_argument("--paid", action="store_true", help="as tasks on the network `local`, each checked")
    arguments = parser.parse_args()
    try:
        if arguments.verb == "train":
            train(arguments.steps)
        else:
            limits = arguments.top_k, arguments.top_p
            sampling = Sampling(arguments.temperature, arguments.least, arguments.seed, *limits)
            write(arguments.prompts, arguments.tokens, sampling, pay=arguments.paid)
    except EigenTensorError as error:
        report(error, as_json=False)
        sys.exit(exit_code(type(error)))


if __name__ == "__main__":
    main()
