"""How well a fitted model tells the time of shapes that it has not seen, beside the time of the nearest shape.

`scripts/bench estimate [DATABASE]` measures some hundred shapes, or takes those that the database has if it has as many
of one build. It holds out 200 shapes, and estimates each from all others of its structure.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from tinygrad import Tensor

from eigentensor.cache import Cache, default_folder
from eigentensor.capture import capture
from eigentensor.program.model import Body
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.build.database import Database, Time
from eigentensor.runtime.build.decide import log_seconds
from eigentensor.runtime.build.names import body_name, structure
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.features import features
from eigentensor.runtime.cpu.schedule import Schedule
from eigentensor.runtime.tuning.measure import Arena

SHAPES, HELD_OUT, ENOUGH = 340, 200, 350
OTHERS = 2  #: schedules of each body that are measured besides the heuristic's
ROUNDS = 7
LEAST = 12  #: bodies of a structure, so that some can be held out
EVALUATIONS = 60_000_000  #: of a body at most: none takes long
Shape = tuple[int, ...]


def matmul(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def linear(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x.linear(y.transpose(), z)).relu()


def convolution(x: Tensor, y: Tensor) -> Tensor:
    return x.conv2d(y, padding=1)


def average(x: Tensor) -> Tensor:
    return x.mean(axis=0)


def softmax(x: Tensor) -> Tensor:
    return x.softmax()


def normalised(x: Tensor) -> Tensor:
    return x.layernorm()


def gelu(x: Tensor) -> Tensor:
    return x.gelu()


def scaled(x: Tensor, y: Tensor) -> Tensor:
    return x * y + y


def turned(x: Tensor) -> Tensor:
    return x.transpose() * 2


#: Functions, and the shapes of their arguments from four extents.
FAMILIES: list[tuple[Callable[..., Tensor], Callable[[int, int, int, int], tuple[Shape, ...]]]] = [
    (matmul, lambda a, b, c, d: ((a, b), (b, c))),
    (matmul, lambda a, b, c, d: ((d % 7 + 2, a, b), (d % 7 + 2, b, c))),
    (linear, lambda a, b, c, d: ((a, b), (c, b), (c,))),
    (convolution, lambda a, b, c, d: ((1 + d % 3, 1 + a // 8, 4 + b // 4, 4 + c // 4), (1 + d // 6, 1 + a // 8, 3, 3))),
    (average, lambda a, b, c, d: ((min(a, 250), b * 8),)),
    (softmax, lambda a, b, c, d: ((a, min(b, 250)),)),
    (normalised, lambda a, b, c, d: ((a, min(b, 250)),)),
    (gelu, lambda a, b, c, d: ((a, b * c // 4 + 1),)),
    (scaled, lambda a, b, c, d: ((a, b * 8), (b * 8,))),
    (turned, lambda a, b, c, d: ((a * 2, b * 3),)),
]


def bodies() -> Iterator[Body]:
    """The bodies of the functions at random extents, each once, the same in every run."""
    random, seen = Random(1), set()
    for number in range(SHAPES):
        function, shapes_of = FAMILIES[number % len(FAMILIES)]
        extents = [round(2 ** random.uniform(3, 8.6)) for _ in range(4)]
        arguments = [np.zeros(shape, np.float32) for shape in shapes_of(*extents)]
        for body in capture(function, dict(zip("xyz", arguments, strict=False))).program.bodies:
            work = body.parameters[0].elements * sum(Analysis(body).steps)
            if work <= EVALUATIONS and body_name(body) not in seen:
                seen.add(body_name(body))
                yield body


def measure(database: Database) -> list[tuple[Body, list[Time]]]:
    """Times of every body, with the heuristic's schedule first."""
    here, cache, random = toolchain.local(), Cache(default_folder()), Random(2)
    for platform, count in database.platforms().items():
        if count >= ENOUGH:
            return database.measured(platform)
    for number, body in enumerate(bodies()):
        if not database.times(here.platform, body):
            usual, *others = here.candidates(body)
            arena = Arena(body, here, cache)
            contenders = arena.contend(random.sample(others, min(OTHERS, len(others))))
            arena.race(contenders, rounds=ROUNDS, eliminate=False)
            times = [Time(str(c.schedule), c.ratio * arena.seconds, len(c.ratios), False) for c in contenders]
            times.append(Time(str(usual), arena.seconds, len(arena.samples), True))
            database.record(here.platform, body, times)
        if number % 50 == 49:
            sys.stderr.write(f"{number + 1} bodies are measured\n")
    return database.measured(here.platform)


def nearest(body: Body, schedule: Schedule, known: list[tuple[Body, list[Time]]]) -> tuple[float, float]:
    """Log seconds of the row whose features are nearest, and these times the ratio of both bodies' work."""
    own, best = features(body, [schedule])[0], (np.inf, 0.0, 0.0)
    for other, times in known:
        rows = features(other, [Schedule.parse(time.schedule) for time in times])
        distances = ((rows - own) ** 2).sum(axis=1)
        least = int(distances.argmin())
        if distances[least] < best[0]:
            scale = np.log(work(body) / work(other))
            best = distances[least], np.log(times[least].seconds), np.log(times[least].seconds) + scale
    return best[1], best[2]


def work(body: Body) -> int:
    return body.parameters[0].elements * sum(Analysis(body).steps)


def main() -> None:
    with TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "times.sqlite"
        with Database(path) as database:
            report(measure(database))


def report(measured: list[tuple[Body, list[Time]]]) -> None:
    kinds: dict[str, list[tuple[Body, list[Time]]]] = defaultdict(list)
    for body, times in measured:
        kinds[structure(body)].append((body, times))
    many = [pair for kind in kinds.values() if len(kind) >= LEAST for pair in kind]
    held = Random(3).sample(many, HELD_OUT)
    names = {body_name(body) for body, _ in held}
    errors: dict[str, list[float]] = defaultdict(list)
    slower: dict[str, list[float]] = defaultdict(list)
    for body, times in held:
        known = [pair for pair in kinds[structure(body)] if body_name(pair[0]) not in names]
        schedules = [Schedule.parse(time.schedule) for time in times]
        logs, _ = log_seconds(toolchain.local(), body, schedules, known)
        true = np.log([time.seconds for time in times])
        errors["model"] += list(np.expm1(np.abs(logs - true)))
        near = np.array([nearest(body, schedule, known) for schedule in schedules])
        errors["nearest neighbour"] += list(np.expm1(np.abs(near[:, 0] - true)))
        errors["nearest neighbour × work"] += list(np.expm1(np.abs(near[:, 1] - true)))
        slower["model"].append(float(np.exp(true[logs.argmin()] - true.min())))
        slower["heuristic"].append(float(np.exp(true[0] - true.min())))
    rows = sum(len(times) for _, times in held)
    say(
        f"{len(measured)} bodies in {len(kinds)} structures; {HELD_OUT} bodies held out, {rows} times of them estimated"
    )
    for name, of in errors.items():
        say(f"{name:26} relative error: median {np.median(of):7.1%}, 90th percentile {np.quantile(of, 0.9):7.1%}")
    for name, of in slower.items():
        mean = np.exp(np.mean(np.log(of)))
        say(f"{name:26} of three schedules takes one that is {mean:.3f} times as slow as the fastest (geometric mean)")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
