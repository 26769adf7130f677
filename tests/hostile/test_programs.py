"""Bytes of strangers: every rule refuses something, by its name, and pays no more for it than the bytes are long."""

import tracemalloc
from collections.abc import Callable

import pytest

from eigentensor.errors import FormatError, ProgramError, RuleError
from eigentensor.program import decode, encode, limits
from eigentensor.program.validity import FORMAT_RULES, sentences
from support.hostile import bodies as refused_bodies
from support.hostile import encodings as refused_bytes
from support.hostile import programs as refused_programs
from support.hostile.refusals import EXAMPLES
from support.programs.worked_examples import layer, session

assert refused_bytes and refused_programs and refused_bodies  # importing them fills the register
WORKED = {"layer": layer().program, "session": session().program}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("rule", "make"), [(rule, make) for rule, _, make in EXAMPLES], ids=[e[1] for e in EXAMPLES])
def test_is_refused_by_name_and_in_bounded_memory(rule: str, make: Callable[[], bytes]) -> None:
    data = make()
    tracemalloc.start()
    try:
        with pytest.raises(ProgramError) as refusal:
            decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refusal.value.rule == rule, refusal.value
    assert peak < (1 << 20) + 40 * min(len(data), 1 << 17)


def test_every_rule_has_an_example_and_every_example_a_rule() -> None:
    assert {rule for rule, _, _ in EXAMPLES} == set(sentences())


def test_examples_have_different_names() -> None:
    names = [name for _, name, _ in EXAMPLES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", WORKED)
def test_a_program_is_refused_at_every_length_but_its_own(name: str) -> None:
    data = encode(WORKED[name])
    for length in range(len(data)):
        with pytest.raises(FormatError) as refusal:
            decode(data[:length])
        assert refusal.value.rule in ("length", "header")


@pytest.mark.parametrize("name", WORKED)
def test_every_changed_byte_is_refused_or_another_program(name: str) -> None:
    data = encode(WORKED[name])
    for position in range(len(data)):
        for change in (1, 0x80, 0xFF):
            changed = data[:position] + bytes([data[position] ^ change]) + data[position + 1 :]
            try:
                other = decode(changed)
            except ProgramError:
                continue
            assert other != WORKED[name]
            assert encode(other) == changed


def test_a_refusal_says_where_and_what_to_do() -> None:
    make = next(make for _, name, make in EXAMPLES if name == "a gather that trusts its indices")
    with pytest.raises(RuleError, match=r"bounds: body 0 instruction 3 \(LOAD\): .* of 4") as refusal:
        decode(make())
    assert refusal.value.where == "body 0 instruction 3 (LOAD)"
    assert "CMPLT" in refusal.value.fix


def test_rules_of_the_format_are_errors_of_the_format_and_others_are_not() -> None:
    for rule, _, make in EXAMPLES:
        try:
            decode(make())
        except FormatError:
            assert rule in FORMAT_RULES or rule in ("limits", "names")
        except RuleError:
            assert rule not in FORMAT_RULES


def test_the_bound_on_gas_cannot_be_broken_without_that_on_witnesses() -> None:
    most_loads = limits.WITNESS // 1_024
    assert 100_000 + 40 * limits.WITNESS + 2_500 * limits.INSTRUCTIONS + 15_000 * most_loads <= limits.GAS
