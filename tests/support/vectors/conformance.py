"""Writes conformance.json: what every case must give, by the reference; every device here is held to it by tests."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed

from support.conformance.answers import FILE, Answer, by_reference, committed, text_of
from support.conformance.cases import cases


def answer(name: str) -> Answer:
    """What the reference gives for a case."""
    return by_reference(cases()[name]())


def main() -> None:
    """Writes the answers of all cases anew, or of those whose names begin as an argument says."""
    starts = tuple(sys.argv[1:]) or ("",)
    names = [name for name in cases() if name.startswith(starts)]
    known = committed() if FILE.exists() else {}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        asked = {pool.submit(answer, name): name for name in names}
        for done, future in enumerate(as_completed(asked), 1):
            known[asked[future]] = future.result()
            FILE.write_text(text_of({name: known[name] for name in cases() if name in known}))
            sys.stdout.write(f"{done} of {len(names)}: {asked[future]}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
