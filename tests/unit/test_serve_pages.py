"""What the pages of `eigentensor serve` decide: widgets, figures, how far a task is, where a sign-in leads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.capture import TensorContext
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Buffer, Program, Role
from eigentensor_serve.apps.models import Chat, Embeddings
from eigentensor_serve.apps.registry import App
from eigentensor_serve.ledger import Job, Key, Ledger, State
from eigentensor_serve.pages import views
from eigentensor_serve.pages.figures import figure
from eigentensor_serve.pages.signing import place
from eigentensor_serve.pages.widgets import asking, pixels_of, widget
from eigentensor_serve.rows import Rows
from eigentensor_serve.showing import task_as
from eigentensor_serve.tokens import Tokens
from support.programs.texts import chatting

FREE = Rows(99, ("x",), ())


def program(inputs: dict[str, tuple[int, ...]], classes: int = 10) -> Program:
    """Takes these, and gives (1, classes)."""
    context = TensorContext()
    sums = [context.add_graph_input(name, shape).sum() for name, shape in inputs.items()]
    return context.compile_to_graph(sum(sums[1:], sums[0]).reshape((1, 1)).expand((1, classes))).program


@pytest.mark.parametrize(
    ("dtype", "shape", "rows", "kind"),
    [
        (DType.FLOAT32, (99, 1, 8, 8), FREE, "drawing"),
        (DType.FLOAT32, (99, 1, 8, 8), None, "file"),
        (DType.UINT8, (1, 28, 28, 1), None, "drawing"),
        (DType.FLOAT32, (1, 28, 28), None, "drawing"),
        (DType.FLOAT32, (1, 1, 128, 128), None, "picture"),
        (DType.FLOAT32, (1, 3, 224, 224), None, "picture"),
        (DType.FLOAT32, (480, 640, 3), None, "picture"),
        (DType.BFLOAT16, (1, 3, 224, 224), None, "file"),
        (DType.FLOAT32, (1, 128, 768), None, "file"),
        (DType.FLOAT32, (28, 28), None, "file"),
        (DType.FLOAT32, (8, 8), None, "numbers"),
        (DType.FLOAT32, (99, 13), FREE, "numbers"),
        (DType.BOOL, (), None, "numbers"),
        (DType.FLOAT32, (65,), None, "file"),
    ],
)
def test_an_input_has_the_widget_of_its_shape(
    dtype: DType, shape: tuple[int, ...], rows: Rows | None, kind: str
) -> None:
    assert widget(Buffer(Role.INPUT, dtype, shape, "x"), rows).kind == kind


def test_a_picture_is_given_as_its_tensor_has_it() -> None:
    digits, photo = pixels_of(DType.UINT8, (1, 8, 8)), pixels_of(DType.FLOAT32, (1, 480, 640, 3))
    assert digits is not None and photo is not None
    assert (digits.prepared, digits.range(DType.UINT8), digits.range(DType.FLOAT32)) == ("counted", "0-16", "0-1")
    assert (photo.channels, photo.height, photo.width, photo.layout) == (3, 480, 640, "last")
    mnist = widget(Buffer(Role.INPUT, DType.FLOAT32, (64, 1, 28, 28), "x"), Rows(64, ("x",), ()))
    assert (mnist.data["shape"], mnist.data["prepared"], mnist.takes) == (
        [1, 1, 28, 28],
        "centred",
        "[1 to 64, 1, 28, 28]",
    )


def test_an_app_is_asked_as_what_it_is() -> None:
    drawn = program({"x": (1, 1, 8, 8)})
    apps: dict[str, Any] = {"created": "2026-11-27T00:00:00Z", "program": "00" * 32}
    assert asking(App("a", 1, **apps), drawn).digits
    assert not asking(App("a", 1, **apps), program({"x": (1, 1, 8, 8)}, 3)).digits
    kinds = [one.kind for one in asking(App("a", 1, **apps), program({"x": (4,), "y": (300,)})).widgets]
    assert kinds == ["numbers", "file"]
    writer = chatting(limits=True).program
    chat = asking(App("a", 1, model=Chat("00"), **apps), writer)
    assert (chat.kind, chat.settings, chat.longest) == ("chat", ("top_p", "top_k"), 8)
    assert asking(App("a", 1, model=Chat("00"), **apps), chatting().program).settings == ()
    assert asking(App("a", 1, model=Embeddings("00"), **apps), drawn).kind == "embeddings"
    assert views.kind_of(asking(App("a", 1, **apps), drawn)) == "digits"


def shown(values: Any, *, of_pictures: bool = True) -> tuple[str, list[tuple[str, str, bool]]]:
    drawn = figure("output", DType.FLOAT32, np.array(values, np.float32), of_pictures=of_pictures)
    return drawn.what, [(bar.label, bar.words, bar.is_most) for bars in drawn.rows for bar in bars]


def test_scores_of_a_picture_are_confidences_and_other_numbers_what_they_are() -> None:
    what, bars = shown([[0, np.log(3), -100]])
    assert (what, bars) == (
        "confidence, by softmax",
        [("0", "25.0 %", False), ("1", "75.0 %", True), ("2", "0.0 %", False)],
    )
    assert shown([[0.5, 0.25, 0.25]])[0] == "confidence", "a distribution stays"
    likeliest = shown([np.arange(1000)])[1]
    assert len(likeliest) == 12 and likeliest[0][0] == "999"
    assert shown(np.ones((1, 512)))[1] == [], "a vector is no classifier"
    assert shown([[np.nan, 1]])[1] == shown([[np.inf, 1]])[1] == shown(np.ones((2, 2, 2)))[1] == shown(1.0)[1] == []
    signed = figure("y", DType.FLOAT32, np.array([-1, 3], np.float32), of_pictures=False)
    assert [(bar.words, bar.start, bar.share) for bar in signed.rows[0]] == [("-1", 0, 25), ("3", 25, 75)]
    many = figure("y", DType.FLOAT32, np.ones((9, 2), np.float32), of_pictures=False)
    assert (len(many.rows), many.more) == (4, 5)
    assert figure("y", DType.INT64, np.array([7]), of_pictures=False).begins == "7"


@pytest.mark.parametrize(
    ("state", "stage", "checked", "life"),
    [
        ("local", "running", None, "queued running* local-"),
        ("local", "failed", None, "queued failed*"),
        ("signed", "committed", None, "asked signed committed* checked- final-"),
        ("open", "open", None, "open* accepted- committed- result- checked- final-"),
        ("revealed", "checked(2)", "checked(2)", "asked accepted committed result checked(2)* final-"),
        ("final", "final", "checked(1)", "asked accepted committed result checked final, checked(1)"),
        ("final", "final", "unchecked", "asked accepted committed result final, unchecked"),
        ("convicted", "convicted", None, "asked convicted*"),
    ],
)
def test_how_far_a_task_is(state: str, stage: str, checked: str | None, life: str) -> None:
    order = None if state in ("local", "signed") else {"max_price": "1"}
    steps = views.life(task_as("00" * 32, state, stage, checked=checked, order=order))
    marks = {"done": "", "now": "*", "ahead": "-"}
    assert " ".join(word + marks[progress] for word, progress in steps) == life


def test_a_sign_in_leads_to_no_other_place() -> None:
    assert place("/tasks?app=a") == "/tasks?app=a"
    for elsewhere in (
        "//shop.example",
        "/\\shop.example",
        "https://shop.example",
        "",
        "/a\nb",
        "javascript:alert(1)",
    ):
        assert place(elsewhere) == "/"


def test_a_pass_is_worth_as_long_as_its_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    alice, bob = tokens.new("alice"), tokens.new("bob")
    kept = tokens.pass_of(alice)
    assert kept is not None and kept != tokens.pass_of(bob) and tokens.reader(kept) == "alice"
    assert tokens.holder(kept) is None and tokens.reader(alice) is None, "neither does what the other does"
    assert tokens.pass_of("et_wrong") is None and tokens.reader("") is None
    assert Tokens(tmp_path / "tokens.json").reader(kept) == "alice", "another process knows it"
    tokens.remove("alice")
    assert tokens.reader(kept) is None


def test_jobs_are_listed_by_app_and_state_and_an_index_finds_them(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for number in range(30):
        job = Job(f"{number:064x}", Key("ab"[number % 2], ""), ("digits", None)[number % 3 == 0], 1.0)
        ledger.add(job, task_as(job.task, "asked", "asked"))
        if number % 5 == 0:
            ledger.record(job.task, task_as(job.task, "local", "local"), state=State.ENDED)
    listed = ledger.jobs("a", None, 4, app="digits", states=(State.ENDED,))
    assert [int(job.task, 16) for _, job in listed] == [20, 10]
    assert [int(job.task, 16) for _, job in ledger.jobs("", listed[0][0], 2, app="digits")] == [19, 17]
    for where in ("app = 'digits'", "state IN ('ended')", "caller = 'a'"):
        query = f"EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE {where} AND number < 9 ORDER BY number DESC LIMIT 50"
        [step] = ledger.database.rows(query)
        assert "USING INDEX" in step["detail"], "and nothing is sorted"
    ledger.close()
