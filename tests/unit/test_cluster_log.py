"""The instruction log: each line read back as what it was, whatever stands in it; the newest at hand, all in a file."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor.cluster.log import (
    ENTRIES,
    Entry,
    Event,
    Log,
    format_entry,
    load_log,
    newest,
    parse_entry,
    parse_log,
    trace,
)
from eigentensor.errors import BindingError, ConfigError
from eigentensor.wire import read

RECEIVED = Entry(
    time=0.123,
    sequence=42,
    event=Event.RECV,
    who="CLIENT 127.0.0.1:12345",
    what="BinaryOp",
    size=123 << 10,
    detail={"result": "42", "op": "add"},
)
texts = st.text(max_size=20)
entries = st.builds(
    Entry,
    time=st.floats(0, 1e9),
    sequence=st.integers(0, 10**17),
    event=st.sampled_from(Event),
    who=texts,
    what=texts,
    size=st.none() | st.integers(0, 1 << 50),
    detail=st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True), texts, max_size=4),
)


def test_a_line_has_gts_columns() -> None:
    line = (
        "  0.123000s | #0042 | RECV            | CLIENT 127.0.0.1:12345 | BinaryOp         |   123KB | result=42 op=add"
    )
    assert format_entry(RECEIVED) == line
    assert (
        parse_entry("  0.123s | #0042 | RECV | CLIENT 127.0.0.1:12345 | BinaryOp | 123KB | result=42 op=add")
        == RECEIVED
    )
    gt = {"CONNECT", "RECV", "SEND", "WORKER_SEND", "WORKER_RECV", "DISCONNECT", "ERROR"}
    assert set(Event) == gt | {"PLAN", "MOVE", "FREE", "REPLAY"}


def test_the_page_of_the_operator_shows_lines_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "operator" / "README.md").read_text().partition("## A cluster's log\n")[2]
    lines = page.partition("```\n")[2].partition("```")[0].splitlines()
    assert len(lines) == 3 and [format_entry(parse_entry(line)) for line in lines] == lines
    assert [entry.sequence for entry in parse_log(lines)] == [42, 43, 44]


@given(entries)
def test_every_entry_is_read_back_from_its_line(entry: Entry) -> None:
    line = format_entry(entry)
    assert parse_entry(line) == entry
    assert len(line.splitlines()) == 1 and line.count("|") == 6 and line.isprintable()


@given(entries)
def test_json_has_the_same(entry: Entry) -> None:
    members = json.loads(json.dumps(entry.to_json()))
    assert members.pop("schema") == "eigentensor.cluster-log/1"
    assert Entry(**read(Entry, {"size": None, **members})) == entry


@given(st.text(max_size=80) | st.builds(lambda e, cut: format_entry(e)[cut:], entries, st.integers(1, 90)))
def test_other_lines_are_refused_or_whole(line: str) -> None:
    try:
        entry = parse_entry(line)
    except BindingError as error:
        assert error.fix
    else:
        assert parse_entry(format_entry(entry)) == entry


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("0.123", "now"),
        ("0.123", "nan"),
        ("#0042", "42"),
        ("#0042", "#4²"),
        ("RECV", "RECEIVED"),
        ("123KB", "123"),
        ("123KB", "1.5KB"),
        ("123KB", "KB"),
        ("op=add", "add"),
        ("op=add", 'op="add'),
        ("BinaryOp", '"BinaryOp'),
        ("BinaryOp", "Binary|Op"),
    ],
)
def test_what_no_column_has_is_refused(part: str, instead: str) -> None:
    line = format_entry(RECEIVED)
    assert part in line
    with pytest.raises(BindingError, match=r"line 3: no line of an instruction log"):
        list(parse_log([line, "", line.replace(part, instead)]))


def ticking() -> Iterator[float]:
    time = 100.0
    while True:
        yield time
        time += 0.5


def test_all_goes_into_the_file_and_the_newest_stay_at_hand(tmp_path: Path) -> None:
    ticks = ticking()
    log = Log(tmp_path / "log", clock=lambda: next(ticks))
    for number in range(ENTRIES + 5):
        log.record(Event.SEND, "CLIENT a", "GET", 8, result=number)
    written = list(parse_log((tmp_path / "log").read_text().splitlines()))
    assert [entry.sequence for entry in written] == list(range(ENTRIES + 5))
    assert log.entries() == written[5:]
    assert log.entries(after=ENTRIES + 2) == written[-2:] and log.entries(after=ENTRIES + 4) == []
    assert written[0].time == 0.5 and written[1].detail == {"result": "1"}
    log.close()
    log.record(Event.FREE, "CLIENT a", "FREE")
    assert len((tmp_path / "log").read_text().splitlines()) == ENTRIES + 5


def test_what_clients_name_is_kept_short() -> None:
    entry = Log().record(Event.ERROR, "CLIENT a", "x" * 300, reason="y" * 1_000_000)
    assert entry.what == "x" * 199 + "…" and len(entry.detail["reason"]) == 200


def test_a_file_is_continued_and_its_newest_log_is_what_counts(tmp_path: Path) -> None:
    for count in (3, 2):
        log = Log(tmp_path / "log")
        for _ in range(count):
            log.record(Event.CONNECT, "WORKER 0", "HELLO")
        log.close()
    entries = list(parse_log((tmp_path / "log").read_text().splitlines()))
    assert [entry.sequence for entry in entries] == [0, 1, 2, 0, 1]
    assert newest(entries) == entries[3:] and newest([]) == []
    with (tmp_path / "log").open("a") as file:
        file.write("  0.5s | #00")  # its writer has been ended in the middle of it
    assert load_log(tmp_path / "log") == entries[3:]


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_log(tmp_path / "missing")
    (tmp_path / "log").write_bytes(b"\xff\n")
    with pytest.raises(BindingError, match="no text"):
        load_log(tmp_path / "log")
    (tmp_path / "log").write_text(format_entry(RECEIVED) + "\n\nhello\n")
    with pytest.raises(BindingError, match="line 3"):
        load_log(tmp_path / "log")


def test_threads_write_whole_lines_in_order(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")

    def write(number: int) -> None:
        for _ in range(200):
            log.record(Event.WORKER_SEND, f"WORKER {number}", "a | b\n", segment=number)

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert list(parse_log((tmp_path / "log").read_text().splitlines())) == log.entries()
    assert [entry.sequence for entry in log.entries()] == list(range(800))


def test_a_file_that_cannot_be_written_is_refused_or_given_up(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        Log(tmp_path)
    log = Log("/dev/full")
    log.record(Event.PLAN, "CLUSTER", "plan")
    log.record(Event.PLAN, "CLUSTER", "plan")
    assert [entry.event for entry in log.entries()] == [Event.PLAN, Event.ERROR, Event.PLAN]
    assert "space" in log.entries()[1].detail["reason"]


def at(seconds: float, sequence: int) -> Entry:
    return Entry(time=seconds, sequence=sequence, event=Event.MOVE, who="WORKER 0", what="box")


@given(st.lists(st.floats(0, 100), max_size=20), st.none() | st.floats(0, 100), st.none() | st.integers(0, 20))
def test_a_trace_is_the_end_of_a_log(times: list[float], seconds: float | None, count: int | None) -> None:
    log = [at(time, number) for number, time in enumerate(sorted(times))]
    kept = trace(log, seconds=seconds, count=count)
    assert kept == log[len(log) - len(kept) :]
    assert count is None or len(kept) <= count
    if kept and seconds is not None:
        assert all(entry.time >= log[-1].time - seconds for entry in kept)
    if seconds is None:
        assert len(kept) == (len(log) if count is None else min(count, len(log)))


def test_sizes_are_exact() -> None:
    sizes = [0, 1, 1023, 1024, 1025, 3 << 20, 5 << 30, (5 << 30) + 1]
    lines = [format_entry(Entry(time=0, sequence=0, event=Event.MOVE, who="a", what="b", size=size)) for size in sizes]
    shown = [re.findall(r"\d+[KMG]?B", line)[0] for line in lines]
    assert shown == ["0B", "1B", "1023B", "1KB", "1025B", "3MB", "5GB", "5368709121B"]
