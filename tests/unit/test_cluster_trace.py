"""The life of a session's instructions, read from a log: of a real cluster, and of one that begins in the middle."""

from pathlib import Path

import pytest

from eigentensor.cluster.log import Entry, Event, format_entry, parse_entry
from eigentensor.errors import BindingError
from eigentensor_cluster.trace import lines, traced
from support.clusters import F32, added, cluster, square


def test_each_instruction_of_a_session_is_followed_to_its_end(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as other, c.session() as session:
        c.here(device="PYTHON")
        other.put(1, square(8), F32)
        other.get(1)  # answered: what went before it is in the log, too
        root = session.define(added())
        session.put(1, square(), F32)
        session.run(root, {"x": 1, "y": 1}, {"output": 2})
        session.get(2)
        session.run(root, {"x": 2, "y": 77}, {"output": 3})
        with pytest.raises(BindingError):
            session.get(3)
        entries = c.dispatcher.log.entries()
        read_back = [parse_entry(format_entry(entry)) for entry in entries]
    trace, about = traced(read_back)
    assert about == [] and (trace.session, trace.member) == (2, "own")
    kinds = [(i.number, i.what, i.state) for i in trace.instructions]
    assert kinds == [
        (2, "DEFINE", "done"),
        (3, "PUT", "done"),
        (4, "RUN", "done"),
        (5, "GET", "done"),
        (6, "RUN", "failed"),
        (7, "GET", "failed"),
    ]
    run, get, refused = trace.instructions[2], trace.instructions[3], trace.instructions[5]
    assert run.workers == ("here",) and run.times == 1 and run.program == root.hex()[:8] and run.size == 64
    assert run.came is not None and run.begun is not None and run.ended is not None
    assert run.came <= run.begun <= run.ended
    assert get.size == 64 and refused.error == "there is no tensor 77 for 'y'"
    single, about = traced(read_back, 2, 4)
    assert single.instructions == (run,) and [e.event for e in about] == ["RECV", "WORKER_SEND", "WORKER_RECV"]
    assert [i.number for i in traced(read_back, 2, count=2)[0].instructions] == [6, 7]
    assert [i.what for i in traced(read_back, 1)[0].instructions] == ["PUT", "GET"]
    shown = list(lines(trace))
    assert shown[0] == "session 2, own" and shown[-1].endswith("failed: there is no tensor 77 for 'y'")


def entry(sequence: int, event: Event, who: str, what: str, size: int | None = None, **detail: object) -> Entry:
    words = {name: str(value) for name, value in detail.items()}
    return Entry(time=sequence / 1000, sequence=sequence, event=event, who=who, what=what, size=size, detail=words)


def test_a_run_of_two_workers_that_loses_one_is_begun_anew() -> None:
    of = {"session": 4, "frame": 9}
    log = [
        entry(0, Event.RECV, "CLIENT 127.0.0.1:5", "RUN", frame=1),  # a log of GT's
        entry(1, Event.RECV, "CLIENT 4", "RUN", frame=9, root="5e1c9a03"),
        entry(2, Event.WORKER_SEND, "WORKER w1", "5e1c9a03", segment=7, **of),
        entry(3, Event.WORKER_SEND, "WORKER w2", "5e1c9a03", segment=7, **of),
        entry(4, Event.DISCONNECT, "WORKER w2", "END"),
        entry(5, Event.WORKER_RECV, "WORKER w1", "5e1c9a03", segment=7),
        entry(6, Event.WORKER_SEND, "WORKER w1", "5e1c9a03", segment=8, **of),
        entry(7, Event.WORKER_SEND, "WORKER w3", "5e1c9a03", segment=8, **of),
        entry(8, Event.MOVE, "WORKER w3", "5e1c9a03", 256, segment=8),
        entry(9, Event.WORKER_RECV, "WORKER w3", "5e1c9a03", 32, segment=8),
        entry(10, Event.WORKER_RECV, "WORKER w1", "5e1c9a03", 64, segment=8),
    ]
    states = [traced(log[: end + 1], 4)[0].instructions[0].state for end in range(1, len(log))]
    assert states == ["waits", "runs", "runs", "runs", "done", "runs", "runs", "runs", "runs", "done"]
    (run,) = traced(log)[0].instructions
    assert (run.workers, run.times, run.moved, run.size) == (("w1", "w3"), 2, 256, 96)
    assert (run.came, run.begun, run.ended) == (0.001, 0.002, 0.01)
    (late,) = traced([*log[6:], entry(11, Event.FREE, "CLIENT 4", "FREE")])[0].instructions
    assert (late.what, late.came, late.begun, late.state) == ("RUN", None, 0.006, "done")
    assert list(lines(traced(log)[0]))[-1].endswith("w1 w3    done, 2 times")


def test_what_a_log_does_not_have_is_said() -> None:
    log = [entry(1, Event.RECV, "CLIENT 4", "GET", frame=9)]
    for session, number, says in ((None, 3, "no instruction 3 of session 4"), (5, None, "no session 5 is in the log")):
        with pytest.raises(BindingError, match=says):
            traced(log, session, number)
    with pytest.raises(BindingError, match="no session is in the log"):
        traced([])
