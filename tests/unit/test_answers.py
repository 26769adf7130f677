"""What a node's answers may be made of."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor.chain.answers import Question, read
from eigentensor.errors import ChainError

DATA, WORD = re.compile("0x(?:[0-9a-fA-F]{2})*"), re.compile("0x[0-9a-fA-F]{64}")


def answered(method: str, result: object) -> object:
    response = json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()
    return read(Question(7, method, []), response)


@pytest.mark.parametrize(("method", "form"), [("eth_call", DATA), ("eth_sendRawTransaction", WORD)])
@given(
    text=st.binary(min_size=31, max_size=33).map(lambda data: f"0x{data.hex()}")
    | st.text("0x1fG \n٣", max_size=8)
    | st.text("0aF ", min_size=62, max_size=66).map("0x".__add__)
)
def test_bytes_are_pairs_of_digits_and_nothing_else(method: str, form: re.Pattern[str], text: str) -> None:
    """Nor spaces, which Python reads over, nor digits of other scripts."""
    if form.fullmatch(text):
        assert answered(method, text) == bytes.fromhex(text[2:])
    else:
        with pytest.raises(ChainError, match="makes no sense"):
            answered(method, text)


@pytest.mark.parametrize("result", [None, 1, [], {}, "0xab cd", "0x abcd", "abcd", "0Xab"])
def test_what_is_no_text_of_bytes_makes_no_sense(result: object) -> None:
    with pytest.raises(ChainError, match="makes no sense"):
        answered("eth_call", result)
