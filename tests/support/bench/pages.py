"""How soon the pages of a gateway and of `eigentensor serve` are there, what they weigh, and how long the gateway takes
for lists of many tasks.

    scripts/bench pages [--tasks 100000] [--loads 5] [--folder FOLDER]

Chromium loads each page as often, each time as a visitor who was never there, from servers in processes of their own on
this machine; what counts is the first paint with content in the middle of the loads, and all bytes that travelled. The
market is that of `scripts/bench index`, a thousand operators and their tasks; who plays with the economics asks another
question each time. Chromium, the servers and all else share the processors: a page that is missed beside other work is
to be looked at alone.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import httpx
import psutil
from playwright.sync_api import Browser

from eigentensor.capture import import_onnx
from eigentensor.chain import Network
from eigentensor.store import GatewayClient, LocalStore
from eigentensor_aggregator import logs
from eigentensor_aggregator.config import Settings as GatewaySettings
from eigentensor_client.examples import FOLDER
from eigentensor_serve.apps.deployment import deploy_local
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from support import digits
from support.bench.index import MOST, ROUNDS, Place, catch_up, serve_index
from support.bench.rest import process, processor, report, serve
from support.browsing import SIZE, chromium, visiting
from support.programs.texts import CHAT, ENCODER, Files, chatting, encoding
from support.stories.crowd import Crowd, serve_node

#: What is wanted: seconds until something is painted, milliseconds of a list at the server.
PAINTED, LATE = 1.0, 100
_PAINT = """() => new Promise((resolve) => {
  new PerformanceObserver((list, watching) => {
    const [paint] = list.getEntriesByName("first-contentful-paint");
    if (!paint) return;
    watching.disconnect();
    resolve(paint.startTime);
  }).observe({ type: "paint", buffered: true });
})"""


def serve_apps(data: Path, port: Connection) -> None:
    """A service that executes here: an app of each kind, and the task of one request."""
    logs.configure(logging.WARNING)
    settings = Settings(local=True, data=data, rate=1e9)
    apps = Apps(data)
    deploy_local(apps, "digits", digits.parts(apps))
    deploy_local(apps, "chat", Files.written(data / "chat", chatting(limits=True), CHAT % 3).parts(apps))
    deploy_local(apps, "words", Files.written(data / "words", encoding(), ENCODER).parts(apps))
    with assembled(settings) as service:
        serve(create_app(service), port, None)


def painted(browser: Browser, name: str, url: str, loads: int, server: psutil.Process) -> None:
    """One line: seconds to the first paint of a page, in the middle and at worst, milliseconds of the server's
    processor for a visit, and the most bytes of one."""
    seconds, sizes, text, busy = list[float](), list[int](), "", processor(server)
    for number in range(loads):
        with visiting(browser, url.replace("{n}", str(number + 1))) as visit:
            seconds.append(visit.page.evaluate(_PAINT) / 1e3)
            sizes.append(visit.size)
            text = visit.page.locator("main").inner_text()
        assert visit.faults == [] and text, visit.faults
    used = 1e3 * (processor(server) - busy) / loads
    figures = f"{median(seconds):6.2f} {max(seconds):6.2f} s {used:6.0f} ms {max(sizes) / 1e3:6.0f} kB"
    goal = f"{PAINTED:g} s, {SIZE / 1e3:.0f} kB"
    report(name, figures, median(seconds) <= PAINTED and max(sizes) <= SIZE, goal)


def answered(place: Place, name: str, path: str) -> None:
    """One line: milliseconds of the server's processor for a page of a list, and until it is there, in the middle."""
    taken, busy = list[float](), processor(place.process)
    for number in range(ROUNDS):
        start = time.perf_counter()
        answer = place.http.get(path.replace("{n}", str(number)), headers={"Accept": "text/html"})
        taken.append((time.perf_counter() - start) * 1e3)
        assert answer.status_code == 200, answer.text
    mean = 1e3 * (processor(place.process) - busy) / ROUNDS
    report(name, f"{mean:6.1f} {median(taken):6.1f} ms", mean <= LATE, f"{LATE} ms")


def gateway_pages(crowd: Crowd, program: str) -> Iterator[tuple[str, str]]:
    """A name and a path of every page; {n} is the number of the load."""
    yield "the market", "/?blocks=4096"
    yield "tasks", "/tasks"
    yield "a task", f"/tasks/{crowd.uuid(crowd.tasks // 3).hex()}"
    yield "operators", "/operators"
    yield "an operator", f"/operators/{crowd.operator(7)}"
    yield "disputes", "/games"
    yield "a program", f"/programs/{program}"
    yield "its paths, when they are known", f"/programs/{program}/paths"
    yield "economics", "/economics?price=1.{n}"
    yield "health", "/health"


def list_pages(crowd: Crowd) -> Iterator[tuple[str, str]]:
    """The same of lists, as people look through them."""
    deep = crowd.block_of(crowd.tasks // 100)
    yield "a list, newest", "/tasks?n={n}"
    yield "a list, in the middle", f"/tasks?cursor={crowd.block_of(crowd.tasks // 2)}-{{n}}"
    yield "a list, at the end", f"/tasks?cursor={deep}-{{n}}"
    yield "a list, in one state, deep", f"/tasks?state=final&cursor={deep}-{{n}}"
    yield (
        "a list, of a client and an operator",
        f"/tasks?client={crowd.client_of_many}&executor={crowd.operator(7)}&n={{n}}",
    )
    yield "a list, of a program, in one state", f"/tasks?program={crowd.program(11).hex()}&state=final&n={{n}}"


def uploaded(url: str, folder: Path) -> str:
    """The root of a program that the gateway has: it reads 99 digits at once, as the demo's does."""
    graph, store = import_onnx(FOLDER / "pytorch_cnn" / "cnn.onnx", {"images": (99, 1, 8, 8)}), LocalStore(folder)
    with GatewayClient(url, store) as gateway:
        gateway.upload(store.put(graph.to_bytes()))
    return graph.uuid


def measure_gateway(browser: Browser, crowd: Crowd, folder: Path, loads: int, stack: ExitStack) -> None:
    port, _, _ = stack.enter_context(process(serve_node, crowd, MOST))
    path = Network("crowd", f"http://127.0.0.1:{port}", "", crowd.deployment).save(folder / "crowd.json")
    settings = GatewaySettings(network=str(path), data=folder / "gateway", poll=0.1, scrub_days=0)
    served, _, running = stack.enter_context(process(serve_index, settings))
    url = f"http://127.0.0.1:{served}"
    place = Place(crowd, stack.enter_context(httpx.Client(base_url=url, timeout=600)), running, settings.database_url)
    catch_up(place)
    for name, asked in list_pages(crowd):
        answered(place, f"gateway  {name}", asked)
    program = uploaded(url, folder / "store")
    place.http.get(f"/programs/{program}/paths")  # which takes seconds, once
    for name, asked in gateway_pages(crowd, program):
        painted(browser, f"gateway  {name}", url + asked, loads, running)


def measure_service(browser: Browser, folder: Path, loads: int, stack: ExitStack) -> None:
    os.environ["EIGENTENSOR_CACHE_DIR"] = str(folder / "blobs")
    port, _, running = stack.enter_context(process(serve_apps, folder / "serve"))
    url = f"http://127.0.0.1:{port}"
    numbers = {"images": [[[[0.0] * 8] * 8]]}
    task = (
        httpx.post(f"{url}/v1/apps/digits", json={"inputs": numbers}, timeout=600)
        .raise_for_status()
        .json()["task"]["task"]
    )
    pages = ("/", "/apps/digits", "/apps/chat", "/apps/words", "/tasks", f"/tasks/{task}")
    for asked in pages:
        painted(browser, f"serve    {asked[:14]}", url + asked, loads, running)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench pages", description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the gateway's data stay, not to be read again")
    arguments = parser.parse_args()
    load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    sys.stdout.write(f"{processors} processors, on which {load:.1f} others wait or run; {arguments.tasks:,} tasks\n")
    with chromium() as browser, tempfile.TemporaryDirectory(prefix="bench-pages-") as place, ExitStack() as stack:
        home = Path(place)
        crowd, folder = Crowd(arguments.tasks), arguments.folder or home
        measure_gateway(browser, crowd, folder, arguments.loads, stack)
        measure_service(browser, home, arguments.loads, stack)


if __name__ == "__main__":
    main()
