"""Who may spend: nobody while a user's file is read, what it started never, the command itself before and after."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from eigentensor import spending
from eigentensor.errors import CaptureError, PaymentRefused
from eigentensor_client.cli import main

FILE = Path("net.py")
#: A function that is paid for, and what else a file needs to pay in one of the ways.
HEAD = """\
import asyncio
from tinygrad import Tensor
import eigentensor as et

@et.function()
def net(x): return x + 1

async def each():
    async for y in net.map.aio([x]): pass

x = Tensor([1.0])
"""


@contextmanager
def thread() -> Iterator[Callable[[Callable[[], None]], None]]:
    """A thread that was started inside, and runs what it is given: what that raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        yield lambda function: pool.submit(function).result()


def test_whoever_reads_no_file_may_spend() -> None:
    spending.check()
    with spending.command(is_process=False), thread() as run:
        spending.check()
        run(spending.check)


def test_nobody_may_while_a_file_is_read() -> None:
    with thread() as before, spending.reading(FILE), thread() as inside:
        for run in (before, inside, lambda function: function(), lambda f: asyncio.run(asyncio.to_thread(f))):
            with pytest.raises(PaymentRefused, match=r"net\.py is only read for its program") as refused:
                run(spending.check)
        assert "__main__" in refused.value.fix and isinstance(refused.value, CaptureError)
    spending.check()


def test_what_a_file_started_may_not_when_it_was_read_but_the_command_may() -> None:
    with spending.command(is_process=False):
        with spending.reading(FILE):
            started = ThreadPoolExecutor(1)
            started.submit(int).result()
        with started:
            spending.check()
            for pool in (started, ThreadPoolExecutor(1)):  # of the file; of the command, as any thread is
                with pytest.raises(PaymentRefused):
                    pool.submit(spending.check).result()
                pool.submit(spending.carried(spending.check)).result()
                with pytest.raises(PaymentRefused):
                    pool.submit(spending.check).result()
    spending.check()
    with thread() as run:
        run(spending.check)


def test_the_end_of_a_process_is_no_time_to_spend() -> None:
    script = (
        "from pathlib import Path\nfrom eigentensor import spending\nfrom eigentensor.errors import PaymentRefused\n"
        "with spending.command(is_process=True):\n"
        "    with spending.reading(Path('net.py')): pass\n"
        "    spending.check()\n"
        "try: spending.check()\nexcept PaymentRefused: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


@pytest.mark.parametrize(
    "call",
    ["net.remote(x)", "net.spawn(x)", "net.map([x])", "asyncio.run(net.remote.aio(x))",
     "asyncio.run(net.spawn.aio(x))", "asyncio.run(each())"],
)  # fmt: skip
@pytest.mark.parametrize("verb", [["program", "capture"], ["deploy", "--name", "a", "--local"], ["optimise"]])
def test_a_call_that_is_paid_for_in_a_file_is_refused_before_a_network_is_asked_for(
    call: str, verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    FILE.write_text(f"{HEAD}{call}\n")
    with pytest.raises(SystemExit) as ended:
        main([*verb, "net.py"])
    _, err = capsys.readouterr()
    assert ended.value.code == 7, err
    assert "error  net.py is only read for its program" in err and f"(net.py:{9 if 'each' in call else 12})" in err
    assert 'fix  Put the calls that are paid for under `if __name__ == "__main__":`' in err
    FILE.write_text(f"{HEAD}if __name__ == '__main__':\n    {call}\n")
    with pytest.raises(SystemExit) as ended:
        main([*verb, "net.py:nothing"])
    assert "has no program named" in (err := capsys.readouterr()[1]) or "has no graph named" in err
