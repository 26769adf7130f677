"""What notebooks show: every text is text, nothing fails because nobody answers, and work is a bar that moves."""

import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eigentensor.errors import Unreachable
from eigentensor.task import State
from eigentensor_client import notebook
from eigentensor_client.calls import CallHandle
from eigentensor_client.results import TaskResult
from support.stories.orders import seen

HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe" + "x" * 300


def receipt_of(content: bytes) -> Any:
    return lambda: SimpleNamespace(to_bytes=lambda: content)


def away() -> Any:
    raise Unreachable("the node does not answer")


def test_a_task_says_its_state_its_price_and_what_it_waits_for() -> None:
    shown = seen(state=State.ACCEPTED, executor="0xE", price=3 * 10**16)._repr_html_()
    for words in ("accepted", "0.03 tokens of at most", "0xE", "waits for", "block"):
        assert words in shown
    assert notebook.tokens(13622266666666666) == "~0.0136222667 tokens" and notebook.tokens(None) == ""
    assert "waits for" not in seen(state=State.FINAL, executor="0xE", price=5)._repr_html_()


def test_a_result_links_its_receipt_where_the_chain_can_be_read() -> None:
    task = seen(state=State.FINAL, executor="0xE", price=5)
    outputs = {"y": np.zeros((2, 4), np.float32)}
    shown = TaskResult(task, b"", outputs, receipt_now=receipt_of(b'{"a": 1}'))._repr_html_()
    assert "float32 (2, 4)" in shown and "base64,eyJhIjogMX0=" in shown and ".receipt</a>" in shown
    for unread in (away, None):
        assert "</a>" not in TaskResult(task, b"", outputs, receipt_now=unread)._repr_html_()


def test_hostile_names_are_shown_as_text() -> None:
    task = seen(state=State.FINAL, executor=HOSTILE, price=5)
    shown = TaskResult(task, b"", {HOSTILE: np.zeros(1)})._repr_html_()
    shown += notebook.facts(HOSTILE, [(HOSTILE, HOSTILE)]) + notebook.download(HOSTILE, b"")
    assert "<img" not in shown and "\u202e" not in shown and "x" * 200 not in shown
    assert set(re.findall(r"<(\w+)", shown)) == {"div", "b", "table", "tr", "th", "td", "a"}
    future: Any = SimpleNamespace(done=lambda: False)
    assert "under way" in CallHandle(future, HOSTILE)._repr_html_()


def test_work_is_a_bar_that_moves_and_leaves_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not notebook.is_here()
    drawn: list[str] = []

    def display(html: str, display_id: bool) -> Any:
        return SimpleNamespace(update=drawn.append)

    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=display))
    assert notebook.is_here()
    with pytest.raises(KeyError), notebook.bar() as bar:
        bar("sending <b>", 1, 2)
        bar("sending <b>", 1, 2)
        bar("waits (block 7)")
        bar("waits (block 8)")
        raise KeyError
    assert drawn[0] == '<progress value="1" max="2"></progress> sending &lt;b&gt;'
    assert [re.sub(r"\d\.\d", "n", line) for line in drawn[1:]] == [
        "sending &lt;b&gt; <small>n s</small><br><progress></progress> waits (block 7)",
        "sending &lt;b&gt; <small>n s</small><br><progress></progress> waits (block 8)",
        "sending &lt;b&gt; <small>n s</small><br>waits <small>n s</small>",
    ]
