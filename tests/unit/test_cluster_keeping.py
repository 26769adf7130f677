"""Around a cluster: who may come, where it is, how it stands in words."""

from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.cluster import address
from eigentensor.cluster.frames import Role
from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.errors import BindingError, ConfigError, NotAdmitted
from eigentensor.program.codec import encode
from eigentensor.program.model import Role as Of
from eigentensor.wire import read
from eigentensor_cluster import running, tokens
from eigentensor_cluster.certificate import prepared
from eigentensor_cluster.keeper import lines, screen
from eigentensor_cluster.running import lines as lines_of
from eigentensor_cluster.running import written
from eigentensor_cluster.schemas import ClusterStatus, SegmentStatus, SessionStatus, WorkerStatus
from eigentensor_cluster.segments import KNOWN, SHOWN, Segments
from eigentensor_cluster.serving import reachable
from eigentensor_cluster.settings import Settings, parse_bind, process_of
from support.programs.worked_examples import layer, session

PRINT = "ab" * 32


@pytest.mark.parametrize(
    "text", [f"cluster://example.com:7700/{PRINT}", f"cluster://[::1]:7700/{PRINT}", "unix:/run/user/1/door"]
)
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(address.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "example.com", "example.com:7700", f"a:70000/{PRINT}", f"a:1/{PRINT}0", "a:1/xyz"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a cluster"):
        address.parse(text)


def test_the_address_is_the_one_named_then_the_environments_then_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(address.ADDRESS, raising=False)
    assert address.named().path == address.own_folder() / "door"
    monkeypatch.setenv(address.ADDRESS, "unix:/a")
    assert address.named().path == Path("/a") and address.named("unix:/b").path == Path("/b")
    with pytest.raises(ConfigError, match="too long for a socket"):
        address.check_length(Path("/" + "x" * 200))


def test_a_folder_that_others_may_enter_holds_no_door(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    address.check_folder(tmp_path)
    tmp_path.chmod(0o750)
    with pytest.raises(NotAdmitted, match="is not a folder of this user alone"):
        address.check_folder(tmp_path)


def test_a_token_is_read_from_a_file_or_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(address.TOKEN_FILE, raising=False)
    assert address.read_token() == bytes(32)
    (tmp_path / "token").write_text(f"{PRINT}\n")
    assert address.read_token(tmp_path / "token") == bytes.fromhex(PRINT)
    monkeypatch.setenv(address.TOKEN_FILE, str(tmp_path / "token"))
    assert address.read_token() == bytes.fromhex(PRINT)
    (tmp_path / "token").write_text("xyz")
    for file in (tmp_path / "token", tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match="has no token"):
            address.read_token(file)


def test_new_tokens_are_one_of_each_role_and_nobody_else_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens.write_new(file)
    assert file.stat().st_mode & 0o777 == 0o600
    members = tokens.read(file)
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            role, name, token = line.split()
            member = members.member(bytes.fromhex(token))
            assert member is not None and (member.role.name.lower(), member.name, member.weight) == (role, name, 1.0)
    assert members.member(bytes(32)) is None
    with pytest.raises(FileExistsError):
        tokens.write_new(file)


@pytest.mark.parametrize(
    "line",
    [
        f"client {PRINT}",
        f"nobody me {PRINT}",
        "client me abc",
        f"client me {PRINT} heavy",
        f"client me {PRINT} 0",
        f"client me {PRINT} 1 0",
        f"client me {PRINT} 1 much",
        f"client me {PRINT} nan",
        f"client me {PRINT} 1 2 3",
    ],
)
def test_a_line_that_is_no_member_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# a comment\nclient one {PRINT[::-1]} 2.5\n\n{line}\n")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=r"tokens:4 is no member"):
        tokens.read(file)


def test_one_token_is_one_members(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"client one {PRINT}  # the first\nworker two {PRINT}\n")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="a token is there twice"):
        tokens.read(file)
    file.write_text(f"client one {PRINT} 2.5\n")
    assert tokens.read(file).member(bytes.fromhex(PRINT)) == tokens.Member(Role.CLIENT, "one", 2.5)
    file.write_text(f"client one {PRINT} 2.5 30\n")
    assert tokens.read(file).member(bytes.fromhex(PRINT)) == tokens.Member(Role.CLIENT, "one", 2.5, 30.0)


def test_a_certificate_is_made_once_and_broken_files_are_none(tmp_path: Path) -> None:
    _, first = prepared(tmp_path)
    assert prepared(tmp_path)[1] == first and (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    (tmp_path / "certificate.pem").write_text("nonsense")
    with pytest.raises(ConfigError, match="are no certificate"):
        prepared(tmp_path)


def test_a_place_to_listen_is_a_host_and_a_port() -> None:
    assert parse_bind("0.0.0.0:7700") == ("0.0.0.0", 7700) and parse_bind("[::1]:0") == ("::1", 0)
    for text in ("7700", ":7700", "host:", "host:99999", "host:x"):
        with pytest.raises(ConfigError, match="is no place to listen"):
            parse_bind(text)
    assert reachable("127.0.0.1") == "127.0.0.1" and reachable("0.0.0.0") not in ("0.0.0.0", "")
    with pytest.raises(ConfigError, match="without a token"):
        Settings(Path("."), 1, ("127.0.0.1", 0))
    assert process_of(Path("nowhere")) is None


STATUS = ClusterStatus(
    "unix:/door", 4711, 75.0, False, 3,
    (WorkerStatus("w1", "a", "CPU", 2, 1, 1200, 30.0), WorkerStatus("w2", "b", "CPU", 2, 2, 800, 20.0)),
    (SessionStatus(1, "me", 12, 3 << 20, 4, 1, 2000, 50.0, 0.01),),
)  # fmt: skip


def test_how_a_cluster_stands_is_said_in_a_few_lines() -> None:
    assert list(lines(STATUS)) == [
        "unix:/door",
        "up for 75 s · 3 of 4 slots busy",
        "",
        "worker  host  device  busy  runs   seconds",
        "w1      a     CPU     1/2   1,200  30.0",
        "w2      b     CPU     2/2   800    20.0",
        "",
        "session  member  tensors  MiB  queued  runs   seconds",
        "1        me      12       3.0  5       2,000  50.0",
        "",
        "3 runs were executed again, since a worker went away",
    ]


def test_how_a_cluster_stands_has_what_members_may_take_and_which_programs_take_the_time() -> None:
    mine = SessionStatus(1, "me", 12, 3 << 20, 4, 1, 2000, 50.0, 0.01, 30.0, -1.25)
    others = SessionStatus(2, "you", 0, 0, 0, 0, 1, 0.5, 0.0)
    segments = (SegmentStatus(PRINT, 1200, 40.25, 3 << 20, 1 << 19),)
    status = ClusterStatus("unix:/door", 4711, 75.0, False, 0, (), (mine, others), segments)
    assert list(lines(status))[3:] == [
        "session  member  tensors  MiB  queued  runs   seconds  left of a minute's",
        "1        me      12       3.0  5       2,000  50.0     -1.2 of 30 s",
        "2        you     0        0.0  0       1      0.5      –",
        "",
        "hot segment  runs   seconds  made, MiB  moved, MiB",
        "abababab     1,200  40.2     3.0        0.5",
    ]
    assert ClusterStatus(**read(ClusterStatus, status.to_json())) == status


def test_programs_that_took_most_come_first_and_no_more_than_some_are_counted() -> None:
    segments = Segments()
    for number in range(KNOWN + 5):
        segments.count(number.to_bytes(32), 1.0, 1, 0)
    for _ in range(3):
        segments.count(bytes(31) + b"\7", 0.5, 10, 2)
    first, *others = segments.hottest
    assert first == SegmentStatus((bytes(31) + b"\7").hex(), 4, 2.5, 31, 6) and len(others) == SHOWN - 1
    segments.count(bytes(32), 0.25, 1, 0)
    assert segments.hottest[0] == first and not any(one.program == bytes(32).hex() for one in segments.hottest)


def test_top_shows_what_happened_between_two_looks() -> None:
    before = ClusterStatus("unix:/door", 1, 74.0, False, 0, (WorkerStatus("w1", "a", "CPU", 4, 0, 1000, 48.0),), ())
    assert screen(before, STATUS)[0] == "████████████████████░░░░░░░░░░░░░░░░░░░░  50% of 4 slots · 1,000 runs a second"
    assert screen(STATUS, STATUS)[0].endswith("   0% of 4 slots · 0 runs a second")


def test_a_program_with_weights_and_states_is_one_with_inputs_alone_and_means_the_same(tmp_path: Path) -> None:
    for example in (layer(), session()):
        once = with_inputs_alone(example.program).program
        assert {b.role for b in once.buffers} <= {Of.INPUT, Of.CONSTANT} and encode(once)
        meant = reference.execute(example.program, example.tensors, example.variables)
        means = reference.execute(once, example.tensors, example.variables)
        assert means.outputs.keys() == meant.outputs.keys() | meant.states.keys() and not means.states
        for name, value in (meant.outputs | meant.states).items():
            assert means.outputs[name].tobytes() == value.tobytes()
        made = written(once, means.outputs, tmp_path / "out")
        assert [one.name for one in made.results] == sorted(means.outputs) and (tmp_path / "out").exists()
        assert len(list(lines_of(means.outputs))) == len(means.outputs)


def test_files_that_are_no_inputs_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"nonsense")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    for word, what in (
        ("x", "cannot read input"),
        (f"@{tmp_path}/a.npy", "has no name of its own"),
        (f"x=@{tmp_path}/a.npy", "is no array"),
        (f"x=@{tmp_path}/objects.npy", "is no array"),
    ):
        with pytest.raises(BindingError, match=what):
            running._tensors([word])
    with pytest.raises(BindingError, match="cannot read variable"):
        running._variables(["x=y"])
    assert running._variables(["x=-3"]) == {"x": -3}
