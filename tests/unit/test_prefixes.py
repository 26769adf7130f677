"""What texts that begin alike go on from: found by the tokens, bounded, each caller's own."""

from eigentensor_serve.openai.prefixes import Prefixes

TOKENS = tuple(range(100, 120))


def test_the_longest_beginning_in_whole_chunks_is_found() -> None:
    kept = Prefixes[str](9)
    for count in (4, 8, 12):
        kept.add("a", TOKENS[:count], f"after {count}")
    assert kept.longest("a", TOKENS, 4) == (12, "after 12")
    assert kept.longest("a", TOKENS[:11], 4) == (8, "after 8")
    assert kept.longest("a", (*TOKENS[:6], 0, 0, 0), 4) == (4, "after 4")
    assert kept.longest("a", TOKENS[1:], 4) is kept.longest("b", TOKENS, 4) is kept.alike("b", TOKENS, 4) is None
    kept.forget("a", TOKENS[:8])
    assert kept.longest("a", TOKENS[:11], 4) == (4, "after 4")


def test_what_read_more_is_found_by_what_is_common() -> None:
    kept = Prefixes[str](9)
    kept.add("a", TOKENS[:16], "after 16")
    assert kept.alike("a", (*TOKENS[:10], 0), 4) == (8, "after 16")
    assert kept.alike("a", TOKENS[:3], 4) is kept.longest("a", (*TOKENS[:10], 0), 4) is None
    kept.add("a", TOKENS, "after 20", does_for_less=True)
    assert kept.alike("a", TOKENS, 4) == (20, "after 20") and kept.longest("a", TOKENS[:16], 4) is None


def test_what_was_used_least_lately_goes() -> None:
    kept = Prefixes[str](10)
    kept.add("a", TOKENS[:4], "first", 4)
    kept.add("b", TOKENS[:4], "second", 4)
    assert kept.longest("a", TOKENS, 4) == (4, "first")
    kept.add("c", TOKENS[:4], "third", 5)
    assert kept.longest("b", TOKENS, 4) is None and kept.longest("a", TOKENS, 4) == (4, "first")
    kept.add("d", TOKENS[:4], "too large", 11)
    kept.add("e", (), "nothing")
    assert kept.longest("d", TOKENS, 4) is None and kept.longest("c", TOKENS, 4) == (4, "third")
