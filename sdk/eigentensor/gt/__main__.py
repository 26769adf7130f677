"""`python -m eigentensor.gt server|worker`: GT's commands, which are `eigentensor cluster up` and `worker`.

On this machine clients and workers of the same user meet at a socket of their own, whatever the port; others come over
TLS, with a token, to the address that the server shows.
"""

import argparse
import os
import sys

from eigentensor.gt.connection import HERE


def words(arguments: list[str]) -> list[str]:
    """GT's words as those of `eigentensor`. Ends the process, saying why, for what is not followed."""
    parser = argparse.ArgumentParser(prog="python -m eigentensor.gt", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    server = parts.add_parser("server", help="let clients and workers come")
    worker = parts.add_parser("worker", help="lend slots to a cluster")
    for part in (server, worker):
        part.add_argument("-p", "--port", type=int, default=12345)
        part.add_argument("--token", metavar="FILE", help="with the tokens that let others in, or one's own")
    server.add_argument("-H", "--host", default=HERE[0], help="where others come; by default nobody does")
    server.add_argument("--spawn_gpu_workers", type=int, default=0, metavar="N", help="slots of this process")
    worker.add_argument("--host", default=HERE[0], help="this machine; another one's server is joined by its address")
    worker.add_argument("--join", metavar="ADDRESS", help="what the server shows")
    worker.add_argument("--slots", type=int, default=1, metavar="N", help="programs executed at a time")
    asked = parser.parse_args(arguments)
    made = ["cluster", "up" if asked.part == "server" else "worker"]
    if asked.part == "server":
        made += ["--workers", str(asked.spawn_gpu_workers)]
        made += [] if asked.host in HERE else ["--bind", f"{asked.host}:{asked.port}"]
    else:
        if asked.join is None and asked.host not in HERE:
            worker.error(f"the server at {asked.host} shows an address: give it as --join ADDRESS")
        made += ["--slots", str(asked.slots), *(["--join", asked.join] if asked.join else [])]
    return [*made, "--token", asked.token] if asked.token else made


if __name__ == "__main__":
    command = [sys.executable, "-m", "eigentensor_client", *words(sys.argv[1:])]
    os.execv(command[0], command)
