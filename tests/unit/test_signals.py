"""Signals: what a configuration says, what it means for the workers that are there, and every mistake by its line."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor.errors import ConfigError
from eigentensor.sharding.signals import BYTES, SIGNALS, Hint, ShardConfig, SignalConfig, Signals, load, parse

EXAMPLE = Path(__file__).parents[1] / "support" / "sharding" / "tensor_pipeline.yaml"


def test_a_model_in_two_parts_and_four_stages_is_read_as_it_stands() -> None:
    signals = load(EXAMPLE)
    assert len(signals.by_name) == 26
    for stage in range(4):
        own = (2 * stage, 2 * stage + 1)
        assert signals.hint(f"stage{stage}", range(8)) == Hint(0, own, True)
        assert signals.hint(f"stage{stage}_attention_in", range(8)) == Hint(1, own, False)
        assert signals.hint(f"stage{stage}_attention_out", range(8)) == Hint(0, own, False)
        assert signals.by_name[f"stage{stage}_mlp_in"].backward_signal == f"stage{stage}_gradients"
    assert [name for name, config in signals.by_name.items() if config.compile] == [f"stage{n}" for n in range(4)]
    assert signals.remarks(range(8)) == ["the gradients of 'embedding' carry 'embedding_gradients', which is no signal"]


def test_the_page_of_the_library_shows_signals() -> None:
    page = (EXAMPLE.parents[3] / "sdk" / "README.md").read_text()
    signals = parse(page.partition("```yaml\n")[2].partition("```")[0])
    assert signals.by_name["layer1"] == SignalConfig(ShardConfig(1, (0, 1)), "layer1_gradients", True)
    assert signals.by_name["layer1_gradients"] == SignalConfig(ShardConfig(replicated=True))


def test_what_a_file_says_can_be_said_in_python() -> None:
    text = "a:\n  shard: {axis: 1, workers: [2, 0]}\n  backward: b\nb:\n  compile: true\n"
    made = Signals().with_signal("a", SignalConfig(ShardConfig(1, workers=(2, 0)), backward_signal="b"))
    assert parse(text) == made.with_signal("b", SignalConfig(compile=True))
    assert SignalConfig(ShardConfig(workers=[0, 1])) == SignalConfig(ShardConfig(workers=(0, 1)))  # type: ignore[arg-type]
    assert made.with_signal("a", SignalConfig()).by_name == {"a": SignalConfig()} != made.by_name


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "---\n"])
def test_no_signals_are_a_configuration(text: str) -> None:
    assert parse(text) == Signals()


@pytest.mark.parametrize("workers", ["", "workers: null, ", "workers: ~, "])
def test_without_workers_all_are_meant(workers: str) -> None:
    signals = parse(f"a: {{shard: {{{workers}axis: 0}}}}")
    assert signals.hint("a", [3, 1]) == Hint(0, (1, 3), False)
    assert signals.remarks([3, 1]) == []


def test_workers_that_are_not_there_are_left_out_and_said_once() -> None:
    signals = parse("a: {shard: {workers: [1, 5]}}\nb: {shard: {workers: [5, 4]}}\nc: {}")
    assert signals.hint("a", range(4)) == Hint(0, (1,), False)
    assert signals.hint("b", range(4)) == Hint(0, (0, 1, 2, 3), False)
    assert signals.hint("b", [5, 6]) == Hint(0, (5,), False)
    assert signals.hint("c", range(4)) is None
    assert signals.remarks(range(4)) == ["signals name workers that are not there, 4, 5; there: 0, 1, 2, 3"]


def test_the_innermost_scope_that_is_a_signal_holds() -> None:
    signals = parse("outer: {shard: {workers: [0]}}\ninner: {compile: true}")
    assert signals.innermost(["outer", "inner"]) == "inner"
    assert signals.innermost(["inner", "outer", "anything"]) == "outer"
    assert signals.innermost(["anything"]) is None and signals.hint(None, [0]) is None
    assert signals.hint("inner", [0]) is None and signals.hint("anything", [0]) is None


def test_aliases_and_merges_are_what_they_stand_for() -> None:
    text = """
common: &common
  shard: &first {axis: 1, workers: [0, 1]}
  backward: gradients
a: {<<: *common, compile: true}
b: {shard: {<<: [{axis: 2}, *first]}}
gradients: {shard: *first}
"""
    signals = parse(text).by_name
    assert signals["a"] == SignalConfig(ShardConfig(1, (0, 1)), "gradients", True)
    assert signals["b"].shard == ShardConfig(2, (0, 1))
    assert signals["gradients"].shard == signals["common"].shard


REFUSED: list[tuple[str, int, str]] = [
    ("a:\n  shard:\n    axis: first\n", 3, "axis 'first'"),
    ("a:\n  shard: {axis: 1.5}\n", 2, "a value that no signal has"),
    ("a:\n  shard: {axis: true}\n", 2, "axis True"),
    ("a:\n  shard: {axis: 0x1}\n", 2, "a value that no signal has"),
    ('a:\n  shard: {axis: "0"}\n', 2, "axis '0'"),
    ("a:\n  shard: {axis: 8}\n", 2, "axis 8"),
    ("a:\n  shard: {axis: [0]}\n", 2, r"axis \[0\]"),
    ("a:\n  shard: {axis: {}}\n", 2, "a value that no signal has"),
    ("a:\n  shard:\n    workers: 3\n", 3, "workers is 3"),
    ("a:\n  shard:\n    workers: []\n", 3, r"workers is \[\]"),
    ("a:\n  shard:\n    workers: [0, 0]\n", 3, "0 among the workers"),
    ("a:\n  shard:\n    workers: [-1]\n", 3, "-1 among the workers"),
    ("a:\n  shard:\n    workers: [4096]\n", 3, "4096 among the workers"),
    ("a:\n  shard:\n    workers: [one]\n", 3, "'one' among the workers"),
    ("a:\n  shard:\n    workers: [null]\n", 3, "None among the workers"),
    ("a:\n  shard:\n    workers: [[0]]\n", 3, "a value that no signal has"),
    ("a:\n  shard: {replicated: 1}\n", 2, "replicated is 1"),
    ("a:\n  shard: 0\n", 2, "names with values are wanted"),
    ("a:\n  compile: always\n", 2, "compile is 'always'"),
    ("a:\n  backward: 3\n", 2, "3 is no name"),
    ("a:\n  backward: ''\n", 2, "'' is no name"),
    ("a:\n  shard: {axes: 0}\n", 2, "'axes' is unknown"),
    ("a: {}\nb:\n  worker: [0]\n", 3, "'worker' is unknown"),
    ("a: {}\nb: {}\na: {}\n", 3, "'a' stands there twice"),
    ("a:\n  compile: true\n  compile: true\n", 3, "'compile' stands there twice"),
    ("a:\n", 1, "names with values are wanted"),
    ("- a\n", 1, "names with values are wanted"),
    ("a\n", 1, "names with values are wanted"),
    ("a: {}\n1: {}\n", 2, "a name that is no text"),
    ("a: {}\n? [1]\n: {}\n", 2, "a name that is no text"),
    ("a: {}\n'': {}\n", 2, "'' is no name"),
    ('a: {}\n"b\\u0007": {}\n', 2, "is no name"),
    (f"a: {{}}\n{'n' * 129}: {{}}\n", 2, "is no name"),
    ("a:\n\tshard: {}\n", 2, "cannot start any token"),
    ("a: {\n", 2, "expected"),
    ("a: {}\n  b: {}\n", 2, "while parsing a block mapping"),
    ("a: {shard: *b}\n", 1, "undefined alias"),
    ("a: {}\n---\nb: {}\n", 2, "another document"),
    ("a: {}\nb: \0\n", 2, "a character that YAML does not have"),
    ("a: {}\nb: !!python/object/apply:os.system [true]\n", 2, "names with values are wanted"),
    ("a: {}\nb: !signal {}\n", 2, "names with values are wanted"),
    ("a: &a {<<: *a}\n", 1, "it contains itself"),
    ("a: {shard: {workers: &w [*w]}}\n", 1, "a value that no signal has"),
    ("a: {}\nb: {<<: 3}\n", 2, "names with values are wanted"),
    ("a: {}\nb: " + "[" * 60_000, 2, "nested too deeply"),
    ("a: {}\nb:\n" + "".join(" " * n + "- \n" for n in range(300)), 10, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "line", "reason"), REFUSED)
def test_every_mistake_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^conf\.yaml, line {line}: .*{reason}") as refused:
        parse(text, "conf.yaml")
    assert refused.value.fix


def test_configurations_are_bounded() -> None:
    with pytest.raises(ConfigError, match="65,536 bytes"):
        parse("#" * (BYTES + 1))
    with pytest.raises(ConfigError, match="signals, line 1: there are 1025 signals"):
        parse("".join(f"s{n}: {{}}\n" for n in range(SIGNALS + 1)))
    doubled = "a0: &a0 {compile: true}\n"
    doubled += "".join(
        f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60)
    )  # 2⁶⁰ merges, if written out
    assert parse(doubled).by_name["a59"].compile


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2: bytes that are no UTF-8"):
        parse(b"a: {}\n\xff: {}\n")
    assert parse(b"\xef\xbb\xbfa: {}\n").by_name.keys() == {"a"}
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    "made",
    [
        lambda: ShardConfig(axis="0"),  # type: ignore[arg-type]
        lambda: ShardConfig(workers=(0, 0)),
        lambda: ShardConfig(replicated=1),  # type: ignore[arg-type]
        lambda: SignalConfig(shard={}),  # type: ignore[arg-type]
        lambda: SignalConfig(backward_signal=""),
        lambda: SignalConfig(compile=None),  # type: ignore[arg-type]
        lambda: Signals().with_signal("", SignalConfig()),
        lambda: Signals().with_signal("a", None),  # type: ignore[arg-type]
    ],
)
def test_python_is_held_to_the_same_rules(made: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        made()
    assert refused.value.fix


names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
shards = st.builds(
    ShardConfig,
    st.integers(-8, 7),
    st.none() | st.lists(st.integers(0, 4095), min_size=1, max_size=8, unique=True).map(tuple),
    st.booleans(),
)
configs = st.builds(SignalConfig, st.none() | shards, st.none() | names, st.booleans())


@given(st.dictionaries(names, configs, max_size=8).map(Signals))
def test_what_is_written_is_read_as_the_same(signals: Signals) -> None:
    assert parse(signals.to_yaml()) == signals


@given(st.text(st.sampled_from("ab:{}[],&*<-#'\"\n\t 019~!|>%@?"), max_size=60) | st.binary(max_size=60))
def test_anything_is_read_or_refused(data: str | bytes) -> None:
    try:
        assert isinstance(parse(data), Signals)
    except ConfigError as error:
        assert error.fix
