"""Object code that is kept: whole or not at all, and nobody else's."""

import os
from pathlib import Path

import pytest

from eigentensor.cache import Cache, default_folder

KEY = "ab" * 32


def test_what_is_put_is_what_is_got(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"
    assert [path.name for path in tmp_path.glob("*/*")] == [f"{KEY}.o"]


def test_code_of_another_name_is_taken_for_absent(tmp_path: Path) -> None:
    cache, other = Cache(tmp_path), "ab" + KEY[2:].upper()
    cache.put(other, b"code")
    cache.path(other).rename(cache.path(KEY))
    assert cache.get(KEY) is None


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_code_that_others_can_write_is_taken_for_absent(mode: int, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"code")
    cache.path(KEY).chmod(mode)
    assert cache.get(KEY) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to somebody else")
def test_code_of_somebody_else_is_taken_for_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"code")
    os.chown(cache.path(KEY), 65534, -1)
    assert cache.get(KEY) is None


def test_code_is_written_for_its_user_alone_to_change(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Cache(tmp_path).put(KEY, b"code")
    finally:
        os.umask(before)
    assert Cache(tmp_path).path(KEY).stat().st_mode & 0o777 == 0o644


def test_the_folder_is_where_users_keep_what_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/eigentensor/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "eigentensor" / "kernels"
