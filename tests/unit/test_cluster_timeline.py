"""A log as a picture: the segments that it has, and an SVG that anything may stand in."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from eigentensor.cluster.log import Entry, Event
from eigentensor_cluster.timeline import BARS, LEFT, WIDTH, Segment, segments, timeline

SVG = "{http://www.w3.org/2000/svg}"


def entry(time: float, sequence: int, event: Event, who: str, segment: object = None, what: str = "step") -> Entry:
    detail = {} if segment is None else {"segment": str(segment)}
    return Entry(time=time, sequence=sequence, event=event, who=who, what=what, detail=detail)


LOG = [
    entry(0.0, 0, Event.CONNECT, "WORKER 0"),
    entry(1.0, 1, Event.WORKER_SEND, "WORKER 0", 1),
    entry(1.5, 2, Event.WORKER_SEND, "WORKER 1", 1),
    entry(2.0, 3, Event.WORKER_RECV, "WORKER 0", 1),
    entry(2.0, 4, Event.WORKER_SEND, "WORKER 0", 2, "other"),
    entry(2.5, 5, Event.DISCONNECT, "WORKER 1"),
    entry(2.6, 6, Event.REPLAY, "WORKER 0", 3),
    entry(3.0, 7, Event.WORKER_SEND, "WORKER 0", what="PUT"),
]


def test_a_segment_lasts_until_it_comes_back_or_its_worker_is_gone() -> None:
    assert segments(LOG) == [
        Segment("WORKER 0", "step", "1", 1.0, 2.0, False),
        Segment("WORKER 1", "step", "1", 1.5, 2.5, False),
        Segment("WORKER 0", "other", "2", 2.0, 3.0, True),
    ]
    assert segments([]) == []


def test_bars_stand_in_their_workers_rows_at_their_times() -> None:
    root = ElementTree.fromstring(timeline(LOG))
    bars = [box for box in root.iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    assert [float(box.attrib["x"]) for box in bars] == [LEFT, LEFT + WIDTH / 4, LEFT + WIDTH / 2]
    assert [float(box.attrib["width"]) for box in bars] == [WIDTH / 2, WIDTH / 2, WIDTH / 2]
    assert bars[0].attrib["y"] == bars[2].attrib["y"] != bars[1].attrib["y"]
    assert bars[0].attrib["fill"] == bars[1].attrib["fill"] != bars[2].attrib["fill"]
    assert [box.attrib.get("class") for box in bars] == [None, None, "open"]
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {"WORKER 0", "WORKER 1", "step", "other", "1.000 s", "3.000 s"} <= set(words)
    marks = [line for line in root.iter(f"{SVG}line") if line.find(f"{SVG}title") is not None]
    assert len(marks) == 2


def test_a_log_without_segments_is_a_picture_too() -> None:
    for log in ([], LOG[:1], LOG[1:2]):
        assert ElementTree.fromstring(timeline(log)).tag == f"{SVG}svg"


def test_pictures_are_bounded_and_say_so() -> None:
    log = [entry(n * 1e-3, n, Event.WORKER_SEND, "WORKER 0", n) for n in range(BARS + 10)]
    picture = timeline(log)
    assert picture.count("<title>") == BARS
    assert f"{BARS:,} of {BARS + 10:,} segments" in picture


texts = st.text(max_size=12)
kinds = st.sampled_from([Event.WORKER_SEND, Event.WORKER_RECV, Event.ERROR, Event.DISCONNECT])


@given(st.lists(st.tuples(st.floats(0, 1e6), kinds, texts, texts, texts), max_size=12), texts)
def test_anything_that_stands_in_a_log_is_drawn(rows: list[tuple[float, Event, str, str, str]], title: str) -> None:
    log = [
        entry(time, number, event, who, segment, what)
        for number, (time, event, who, segment, what) in enumerate(sorted(rows, key=lambda row: row[0]))
    ]
    root = ElementTree.fromstring(timeline(log, title))
    bars = [box for box in root.iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    assert len(bars) == len(segments(log))
    assert all(LEFT <= float(box.attrib["x"]) <= LEFT + WIDTH for box in bars)
