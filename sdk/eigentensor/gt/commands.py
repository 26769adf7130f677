"""GT's commands, which are those of `eigentensor cluster`.

On this machine clients and workers of the same user meet at a socket of their own, whatever the port; others come over
TLS, with a token, to the address that the server shows.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from eigentensor.gt.connection import HERE
from eigentensor.talk import say


class Command(NamedTuple):
    """Words for `eigentensor`; seconds that pass before, and the file that takes what it prints, if one does."""

    words: list[str]
    after: float = 0.0
    file: Path | None = None


def command(arguments: Sequence[str]) -> Command:
    """What GT's words ask for. Ends the process, saying why, for what is not followed."""
    parser = argparse.ArgumentParser(prog="python -m eigentensor.gt", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    _add_server(parts.add_parser("server", help="let clients and workers come"))
    worker = parts.add_parser("worker", help="lend slots to a cluster")
    _add_worker(worker)
    top = parts.add_parser("top", help="look on")
    trace = parts.add_parser("trace", help="write down what happens in the next seconds")
    visualize = parts.add_parser("visualize", help="draw a log as a picture")
    for part in (top, trace):
        _add_place(part, "--cluster")
    trace.add_argument("-s", "--seconds", type=float, required=True)
    trace.add_argument("-n", "--count", type=int, help="the last so many lines alone")
    trace.add_argument("--dir", type=Path, default=Path(), metavar="FOLDER", help="where the file goes")
    visualize.add_argument("log", type=Path)
    visualize.add_argument("--output", type=Path, help="an .svg; by default beside the log")
    visualize.add_argument("--dpi", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.part == "visualize":
        return _visualized(visualize, asked)
    if asked.part == "server":
        return Command(_server(asked))
    if asked.part == "worker":
        return Command(_worker(worker, asked))
    place = _place(top if asked.part == "top" else trace, asked, asked.cluster, "--cluster")
    if asked.part == "top":
        return Command(["cluster", "top", *place])
    last = [] if asked.count is None else ["-n", str(asked.count)]
    file = asked.dir / f"trace-{time.strftime('%Y%m%d-%H%M%S')}.log"
    return Command(["cluster", "log", "-s", str(asked.seconds), *last, *place], max(0.0, asked.seconds), file)


def execute(arguments: Sequence[str]) -> None:
    """Becomes the process that does what GT's words ask for."""
    words, after, file = command(arguments)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        time.sleep(after)
        say(f"writes {file}")
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    line = [sys.executable, "-m", "eigentensor_client", *words]
    os.execv(line[0], line)


def _add_place(part: argparse.ArgumentParser, address: str) -> None:
    part.add_argument("-p", "--port", type=int, default=12345)
    part.add_argument("--token", metavar="FILE", help="with the tokens that let others in, or one's own")
    part.add_argument("--host", default=HERE[0], help=f"this machine; another one's server is reached by {address}")
    part.add_argument(address, metavar="ADDRESS", help="what the server shows")


def _add_server(part: argparse.ArgumentParser) -> None:
    part.add_argument("-p", "--port", type=int, default=12345)
    part.add_argument("--token", metavar="FILE", help="with the tokens that let others in")
    part.add_argument("-H", "--host", default=HERE[0], help="where others come; by default nobody does")
    part.add_argument("--spawn_gpu_workers", type=int, default=0, metavar="N", help="slots of this process")
    part.add_argument("--log-file", metavar="FILE", help="that the log goes on in")
    part.add_argument("--no-console-log", action="store_true", help="as it is in any case: see `top`, and `log -f`")


def _add_worker(part: argparse.ArgumentParser) -> None:
    _add_place(part, "--join")
    part.add_argument("--slots", type=int, default=1, metavar="N", help="programs executed at a time")
    part.add_argument("--id", help=argparse.SUPPRESS)
    part.add_argument("--backend", help=argparse.SUPPRESS)


def _server(asked: argparse.Namespace) -> list[str]:
    words = ["cluster", "up", "--workers", str(asked.spawn_gpu_workers)]
    words += [] if asked.host in HERE else ["--bind", f"{asked.host}:{asked.port}"]
    words += ["--log", asked.log_file] if asked.log_file else []
    return [*words, "--token", asked.token] if asked.token else words


def _worker(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> list[str]:
    if asked.id is not None:
        parser.error("--id: a cluster gives each of its workers a name of its own, so leave it out")
    if asked.backend is not None:
        parser.error("--backend: there is one, so leave it out; `eigentensor cluster worker --device` names a device")
    return ["cluster", "worker", "--slots", str(asked.slots), *_place(parser, asked, asked.join, "--join")]


def _place(parser: argparse.ArgumentParser, asked: argparse.Namespace, address: str | None, option: str) -> list[str]:
    if address is None and asked.host not in HERE:
        parser.error(f"the server at {asked.host} shows an address: give it as {option} ADDRESS")
    words = [option, address] if address else []
    return [*words, "--token", asked.token] if asked.token else words


def _visualized(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> Command:
    output: Path = asked.output or asked.log.with_suffix(".svg")
    if output.suffix != ".svg" or asked.dpi is not None:
        parser.error("a picture is lines, not dots: name an .svg as --output, and leave --dpi out")
    return Command(["cluster", "timeline", str(asked.log), "-o", str(output)])
