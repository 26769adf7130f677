"""The list of system calls of a sealed process, for each processor: what the kernel would make of it, step by step."""

import errno
import struct

import pytest

from eigentensor.errors import NoSandbox
from eigentensor.runtime.gpu import nodes
from eigentensor.runtime.reach import NOTHING, Reach
from eigentensor.runtime.sandbox import confine

REFUSED, ALLOWED = 0x00050000 | errno.EPERM, 0x7FFF0000
CARD = Reach(requests=nodes.NVIDIA, scratch=1)


def verdict(program: bytes, architecture: int, number: int, second: int = 0) -> int:
    """What the filter says of a call with this second argument."""
    data = struct.pack("IIQ6Q", number, architecture, 0, 0, second, 0, 0, 0, 0)
    at = value = 0
    while True:
        code, yes, no, constant = struct.unpack_from("HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("I", data, constant)
        elif code == 0x54:
            value &= constant
        elif code == 0x15:
            at += yes if value == constant else no
        else:
            assert code == 0x06
            return int(constant)


@pytest.mark.parametrize("machine", confine.CALLS)
def test_what_is_listed_is_allowed_and_nothing_else(machine: str) -> None:
    architecture, calls = confine.CALLS[machine]
    asking = {confine.IOCTL[machine], confine.FCNTL[machine]}
    for reach, more in ((NOTHING, {}), (CARD, confine.DRIVING[machine])):
        program, listed = confine.filtering(machine, reach), {*calls.values(), *more.values()}
        assert not listed & asking
        for number in range(600):
            expected = ALLOWED if number in listed else REFUSED
            assert verdict(program, architecture, number) == expected
            assert (
                verdict(program, architecture ^ 1, number)
                == verdict(program, architecture, number | 1 << 30)
                == REFUSED
            )


@pytest.mark.parametrize("machine", confine.CALLS)
def test_of_ioctl_and_fcntl_what_is_asked_decides(machine: str) -> None:
    architecture, _ = confine.CALLS[machine]
    program, ioctl, fcntl = confine.filtering(machine, CARD), confine.IOCTL[machine], confine.FCNTL[machine]
    free, control, wrapped, read = 0xC0104629, 0xC020462A, 0xC01046D3, 62
    for request in (free, control, nodes.BEGIN, nodes.END, 37, free | 1 << 40):
        assert verdict(program, architecture, ioctl, request) == ALLOWED
    for request in (wrapped, read, 0x5412, 0x5401, 0x4600, nodes.BEGIN << 1, 0x30000003):
        assert verdict(program, architecture, ioctl, request) == REFUSED
    assert {c for c in range(2000) if verdict(program, architecture, fcntl, c) == ALLOWED} == {1, 2, 3, 1030}
    assert verdict(confine.filtering(machine), architecture, ioctl, free) == REFUSED


def test_no_filter_is_made_for_an_unknown_processor() -> None:
    with pytest.raises(NoSandbox, match="no list of system calls for m68k"):
        confine.filtering("m68k")
