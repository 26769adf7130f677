"""A cluster over its door: sessions with their tensors, strangers that are refused, what each sees of others."""

import pickle
import secrets
import socket
import ssl
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cluster import frames, tls
from eigentensor.cluster.address import Address
from eigentensor.cluster.connection import Connection
from eigentensor.cluster.frames import ANSWERED, VERSION, Hello, Role
from eigentensor.cluster.layouts import Reader, encode
from eigentensor.cluster.remote import RemoteSession
from eigentensor.errors import (
    BindingError,
    ConfigError,
    ConnectionLost,
    ExecutionError,
    FrameRefused,
    LimitError,
    NotAdmitted,
)
from eigentensor.graph import GraphBuilder
from eigentensor.program.codec import SEMANTICS
from eigentensor.program.model import Program
from eigentensor_cluster.serving import status_of
from eigentensor_cluster.sessions import Quota
from eigentensor_cluster.tokens import Member
from support.clusters import F32, added, cluster, square

CLIENT, OTHER, WORKER = secrets.token_bytes(32), secrets.token_bytes(32), secrets.token_bytes(32)
MEMBERS = {
    CLIENT: Member(Role.CLIENT, "one"), OTHER: Member(Role.CLIENT, "two"), WORKER: Member(Role.WORKER, "lender"),
}  # fmt: skip


def chain(session: RemoteSession, steps: int) -> np.ndarray:
    """y + steps·y, by as many runs one behind the other."""
    root = session.define(added())
    session.put(1, square(), F32)
    session.put(2, square(), F32)
    for step in range(steps):
        session.run(
            root, {"x": 1 if step == 0 else step + 2, "y": 2}, {"output": step + 3}, freed=[step + 2] if step else []
        )
    return session.get(steps + 2)


def test_what_is_run_one_behind_the_other_is_what_it_means_and_no_more_is_held(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        c.here(slots=2)
        assert np.array_equal(chain(session, 200), square() * 201)
        stats = session.stats()
        assert (stats.handles, stats.held, stats.programs, stats.runs) == (3, 192, 1, 200)
        assert [(worker.name, worker.runs) for worker in stats.workers] == [("here", 200)]
        session.free([1, 2, 202, 77])
        assert session.stats().handles == session.stats().held == 0


def test_a_large_tensor_goes_and_comes_in_pieces(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    large = rng.standard_normal((1000, 1500)).astype(np.float32)
    with cluster(tmp_path / "c") as c, c.session() as session:
        session.put(1, large, F32)
        came = session.get(1)
        assert came.tobytes() == large.tobytes() and not came.flags.writeable


def test_an_error_names_what_failed_first_and_the_session_goes_on(tmp_path: Path) -> None:
    with cluster(tmp_path / "c", Quota(held=1 << 20)) as c, c.session() as session:
        c.here()
        root = session.define(added())
        session.put(1, square(), F32)
        session.run(root, {"x": 1, "y": 9}, {"output": 2})
        session.run(root, {"x": 2, "y": 1}, {"output": 3})
        for handle in (2, 3):
            with pytest.raises(BindingError, match="there is no tensor 9 for 'y'"):
                session.get(handle)
        with pytest.raises(BindingError, match="there is no tensor 55"):
            session.get(55)
        session.put(4, np.zeros((600, 600), np.float32), F32)
        with pytest.raises(LimitError, match="holds 1,048,576 bytes at most"):
            session.get(4)
        session.run(root, {"x": 1, "y": 1}, {"output": 5})
        assert np.array_equal(session.get(5), square() * 2)


def test_what_cannot_be_asked_is_refused_where_it_is_asked(tmp_path: Path) -> None:
    builder = GraphBuilder()
    weighted = builder.compile(builder.input("x", (2,)) + builder.weight("w", np.ones(2, np.float32))).program
    with cluster(tmp_path / "c") as c, c.session() as session:
        with pytest.raises(BindingError, match="this one has weights or states: w"):
            session.define(weighted)
        with pytest.raises(BindingError, match="is not defined in this session"):
            session.run(bytes(32), {}, {})
        root = session.define(added())
        with pytest.raises(BindingError, match="missing y"):
            session.run(root, {"x": 1}, {})
        with pytest.raises(BindingError, match="unknown outputs: z"):
            session.run(root, {"x": 1, "y": 1}, {"z": 2})
        session.close()
        with pytest.raises(ExecutionError, match="the session is closed"):
            session.get(1)


def test_a_session_sees_nothing_of_another_and_a_client_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path / "c", grace=0.1) as c:
        worker = c.here()
        mine, theirs = c.session(), c.session()
        mine.put(1, square(), F32)
        assert mine.get(1).any()
        with pytest.raises(BindingError, match="there is no tensor 1"):
            theirs.get(1)
        chain(theirs, 3)
        assert theirs.stats().runs == 3 and mine.stats().runs == 0
        numbers = [session.number for session in c.dispatcher.sessions.values()]
        theirs.close()
        mine._connection._socket.close()  # as a process that is killed
        c.until(lambda: not c.dispatcher.sessions)
        assert all(worker.at_hand(number, tensor) is None for number in numbers for tensor in range(1, 20))


def test_who_lost_the_connection_goes_on_with_the_session_for_a_while(tmp_path: Path) -> None:
    with cluster(tmp_path / "c", grace=5.0) as c:
        first = c.session()
        first.put(1, square(), F32)
        assert first.get(1).any()
        first._connection._socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(ConnectionLost) as lost:
            first.get(1)
        assert lost.value.session == first.identity
        second = c.session(first.identity)
        assert np.array_equal(second.get(1), square()) and len(c.dispatcher.sessions) == 1
        second.put(2, square(), F32)
        second.close()
        with pytest.raises(NotAdmitted, match="there is no such session any more"):
            c.session(first.identity)


def refused(address: Address, token: bytes, role: Role = Role.CLIENT) -> str:
    with pytest.raises(NotAdmitted) as error:
        Connection(address, role, token)
    return error.value.what


def test_others_come_over_tls_with_a_token_of_their_role_and_in_no_other_way(tmp_path: Path) -> None:
    with cluster(tmp_path / "c", members=MEMBERS) as c:
        c.here()
        address = c.listen()
        (tmp_path / "token").write_text(CLIENT.hex() + "\n")
        with RemoteSession(str(address), str(tmp_path / "token")) as session:
            assert np.array_equal(chain(session, 5), square() * 6)
            [inside] = c.dispatcher.sessions.values()
            assert inside.member == "one"
        assert refused(address, bytes(32)) == "this token is not one of a client"
        assert refused(address, secrets.token_bytes(32)) == "this token is not one of a client"
        assert refused(address, WORKER) == "this token is not one of a client"
        assert refused(address, CLIENT, Role.KEEPER) == "this token is not one of a keeper"
        assert "shows the certificate" in refused(address._replace(fingerprint=bytes(32)), CLIENT)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError), socket.create_connection((address.host, address.port), 10) as plain:
            old.wrap_socket(plain)


def answered(address: Address, data: bytes, *, secured: bool = True) -> bytes:
    """What the door answers to bytes, until it ends the connection."""
    plain = socket.create_connection((address.host, address.port), 10)
    with tls.context().wrap_socket(plain) if secured else plain as speaking:
        speaking.sendall(data)
        came = b""
        while True:
            try:
                more = speaking.recv(1 << 16)
            except ConnectionError:
                return came
            if not more:
                return came
            came += more


def hello(version: int = VERSION, semantics: int = SEMANTICS) -> bytes:
    return encode(Hello(version, semantics, Role.CLIENT, CLIENT), 1)


def test_whoever_speaks_otherwise_is_refused_and_nobody_else_notices(tmp_path: Path) -> None:
    with cluster(tmp_path / "c", members=MEMBERS) as c:
        c.here()
        address = c.listen()
        pickled = pickle.dumps(square)
        with c.session() as session:
            assert answered(address, hello(), secured=False)[:1] != b"\x40"  # a TLS alert, or nothing
            for data in (pickled, b"GET / HTTP/1.1\r\n\r\n", encode(frames.Stats(), 1), hello()[:-1] + b"\xff" * 300):
                [(_, answer)] = Reader(ANSWERED).feed(answered(address, data))
                assert isinstance(answer, frames.Failed) and answer.error == "FrameRefused"
            for wrong in (hello(version=VERSION + 1), hello(semantics=SEMANTICS + 1)):
                [(_, answer)] = Reader(ANSWERED).feed(answered(address, wrong))
                assert isinstance(answer, frames.Failed) and answer.error == "NotAdmitted"
            for behind in (encode(frames.Get(1), 3), encode(frames.Watch(frames.Topic.STATUS), 2), pickled):
                connection = Connection(address, Role.CLIENT, CLIENT)
                connection._socket.sendall(behind)
                answer = connection.receive()
                assert isinstance(answer, frames.Failed) and answer.error == "FrameRefused"
                connection.close()
            c.until(lambda: len(c.dispatcher.sessions) == 1)
            assert np.array_equal(chain(session, 3), square() * 4)


def test_one_who_repeats_a_number_is_let_go_with_a_word_about_it(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        session.put(1, square(), F32)
        session.put(1, square(), F32)
        with pytest.raises((FrameRefused, ExecutionError), match="the number 1 was given before"):
            session.get(1)
        with pytest.raises(ConnectionLost, match="the door ended the session"):
            session.get(1)


def test_a_client_that_runs_ahead_waits_and_loses_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path / "c", Quota(queued=8)) as c, c.session() as session:
        c.here()
        assert np.array_equal(chain(session, 300), square() * 301)


def test_two_workers_without_names_are_two_and_each_executes(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        c.joined(), c.joined()
        assert [worker.name for worker in c.dispatcher.places] == ["w1", "w2"]
        root = session.define(added(256))
        for number in range(8):  # nothing of one is needed by another
            session.put(2 * number + 1, square(256), F32)
            session.run(root, {"x": 2 * number + 1, "y": 2 * number + 1}, {"output": 2 * number + 2})
        for number in range(8):
            assert np.array_equal(session.get(2 * number + 2), square(256) * 2)
        assert {worker.name for worker in session.stats().workers} == {"w1", "w2"}


def test_an_idle_connection_that_says_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentensor_cluster.door.SECONDS", 0.05)
    with cluster(tmp_path / "c") as c, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(c.folder / "door"))
        silent.settimeout(10)
        start = time.monotonic()
        assert silent.recv(1) == b"" and time.monotonic() - start < 10


SIGNALS = "rows: {shard: {axis: 0}}\nwhole: {shard: {replicated: true}}\n"


@pytest.mark.parametrize("is_joined", [False, True])
def test_signals_share_a_program_out_among_the_slots_of_a_worker_and_change_no_bit(
    is_joined: bool, tmp_path: Path
) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        if is_joined:
            c.joined(slots=2)
        else:
            c.here(slots=2)
        program, rng = squared(24), np.random.default_rng(0)
        session.put(1, rng.standard_normal((24, 24)).astype(np.float32), F32)
        root = session.define(program)
        session.run(root, {"x": 1}, {"output": 2})
        assert session.get(2).any()
        session.configure(SIGNALS)
        for number, name in enumerate(("rows", "whole", "nothing")):
            assert session.define(program, {0: name}) == root
            session.run(root, {"x": 1}, {"output": 3 + number})
            assert session.get(3 + number).tobytes() == session.get(2).tobytes()
        plans = [e.detail for e in c.dispatcher.log.entries() if e.event == "PLAN" and e.detail.get("call") == "0"]
        assert {(of["signal"], of["slot"]) for of in plans} == {(n, s) for n in ("rows", "whole") for s in "01"}
        with pytest.raises(ConfigError, match="line 1"):
            session.configure("rows: 3")


def squared(rows: int) -> Program:
    builder = GraphBuilder()
    x = builder.input("x", (rows, rows))
    return builder.compile(x @ x).program


def test_a_member_that_took_its_minute_waits_with_all_its_sessions_and_nobody_else_does(tmp_path: Path) -> None:
    now, token, files = [0.0], secrets.token_bytes(32), [tmp_path / "one", tmp_path / "two"]
    members = {CLIENT: Member(Role.CLIENT, "one", 1.0, 1e-6), token: Member(Role.CLIENT, "two")}
    with cluster(tmp_path / "c", Quota(queued=4), members) as c:
        c.here()
        c.dispatcher._clock = lambda: now[0]
        for file, secret in zip(files, (CLIENT, token), strict=True):
            file.write_text(secret.hex())
        bounded, other, free = (RemoteSession(str(c.address), str(files[n])) for n in (0, 0, 1))
        chain(bounded, 1)  # its first run may begin, and takes more than it has
        assert bounded.stats().runs == 1
        for session in (bounded, other):
            session.put(11, square(), F32)
            session.run(session.define(added()), {"x": 11, "y": 11}, {"output": 12})
        chain(free, 3)
        assert free.stats().runs == 3
        assert bounded.stats().runs == 1 and other.stats().runs == 0
        left = c.call(lambda: [c.dispatcher.left(session) for session in c.dispatcher.sessions.values()])
        assert left[0] == left[1] and (left[0] or 0) < 0 and left[2] is None
        for minute in (1, 2):  # enough for one run of either
            now[0] = 1e9 * minute
            c.call(c.dispatcher.pump)
            c.until(partial(lambda runs: sum(s.runs for s in c.dispatcher.sessions.values()) == runs, 4 + minute))
        assert bounded.get(12).any() and other.get(12).any()
        status = c.call(lambda: status_of(c.dispatcher, "", 0.0, trusts=True))
        assert [one.allowance for one in status.sessions] == [1e-6, 1e-6, None]
        assert [(one.runs, one.made, one.moved) for one in status.segments] == [(6, 6 * 64, 0)]
        for session in (bounded, other, free):
            session.close()


@pytest.mark.slow
def test_five_clients_one_of_which_is_greedy_have_a_fifth_of_the_slots_each(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, ExitStack() as stack:
        c.here(slots=1)
        first, *sessions = [stack.enter_context(c.session()) for _ in range(6)]
        programs = {rows: squared(rows) for rows in (640, 192)}
        for rows, program in programs.items():  # what is compiled is compiled for nobody's account
            first.put(rows, square(rows, 1e-6), F32)
            first.run(first.define(program), {"x": rows}, {"output": 10 * rows})
            first.get(10 * rows)
        first.close()
        for number, session in enumerate(sessions):
            rows = 640 if number == 0 else 192  # the greedy one's runs take far longer
            root = session.define(programs[rows])
            session.put(1, square(rows, 1e-6), F32)
            for handle in range(2, 3_000):
                session.run(root, {"x": 1}, {"output": handle}, freed=[handle])

        def seconds() -> list[float]:
            every = c.dispatcher.sessions.values()
            return [sum(share.seconds for share in session.shares.values()) for session in every]

        c.until(lambda: sum(seconds()) > 1.5)
        had = c.call(seconds)
        assert c.call(lambda: all(session.queue for session in c.dispatcher.sessions.values()))
        assert len(had) == 5 and all(abs(part / sum(had) - 0.2) <= 0.05 for part in had), had
