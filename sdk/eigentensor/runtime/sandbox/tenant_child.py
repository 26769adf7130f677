"""The process that executes the programs of one tenant, as they come:
`python -m eigentensor.runtime.sandbox.tenant_child FOLDER REQUESTS RESPONSES`.

FOLDER holds job.json; the numbers are of open pipes. A request is a length and a header in JSON. `define` names a
program by a number, and its bytes follow, as many as `bytes`; `run` names one, with values of variables, and the
tensors follow that it takes, by their numbers, as bytes whose size the program says; `forget` names one. Each has a
response: a byte, then what `returned` describes of a run, or a length and the line that `child.described` makes. A
first response says that all is ready.
"""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from eigentensor.cache import Cache
from eigentensor.errors import EigenTensorError
from eigentensor.program.codec import decode
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox import child, confine
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.runtime.sandbox.warm_child import DONE, LENGTH, failed, serve, stacked
from eigentensor.threads import start


def main(folder: Path, requests: BinaryIO, responses: BinaryIO) -> None:
    """The child's whole life: limits, no more processes or sockets, then what comes until the pipe ends."""
    confine.tie()
    job = json.loads((folder / "job.json").read_text())
    limits = Limits(**job["limits"])
    confine.limit(limits, job["file_bytes"])
    start(limits.threads)
    if job["sealed"]:
        confine.seal()
    responses.write(DONE)
    responses.flush()
    graphs: dict[int, CompiledGraph] = {}
    while head := requests.read(LENGTH.size):
        asked = json.loads(requests.read(*LENGTH.unpack(head)))
        try:
            response = DONE + _done(asked, requests, graphs, folder, job["device"], limits)
        except (EigenTensorError, MemoryError) as error:
            response = failed(error)
        responses.write(response)
        responses.flush()


def _done(
    asked: Mapping[str, Any],
    requests: BinaryIO,
    graphs: dict[int, CompiledGraph],
    folder: Path,
    device: str,
    limits: Limits,
) -> bytes:
    if "define" in asked:
        program = decode(requests.read(asked["bytes"]))
        graphs[asked["define"]] = CompiledGraph(
            program, device=device, threads=limits.threads, cache=Cache(folder / "kernels"),
            toolchain=child.toolchain(device, asked["toolchain"]) if asked["toolchain"] else None,
            memory_limit=limits.memory,  # a sealed process cannot ask how much there is
        )  # fmt: skip
        return b""
    if "forget" in asked:
        graphs.pop(asked["forget"], None)
        return b""
    graph, file = graphs[asked["run"]], io.BytesIO()
    tensors = {name: array[0] for name, array in stacked(requests, graph.program, [None]).items()}
    writer = Wanted(graph.program, 1).writer(file)
    writer.finish(graph.run(tensors, asked["variables"]))
    return file.getvalue()


if __name__ == "__main__":
    serve(main)
