"""The door: lets clients, workers and keepers in, and speaks with each of them in frames."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from eigentensor.cluster import frames, tls
from eigentensor.cluster.address import check_folder, check_length
from eigentensor.cluster.frames import ASKED, VERSION, WORKED, Hello, Kind, Role, Topic, Welcome, failure
from eigentensor.cluster.log import Event, format_entry
from eigentensor.cluster.pieces import values
from eigentensor.errors import BindingError, ConfigError, ConnectionLost, EigenTensorError, FrameRefused, NotAdmitted
from eigentensor.program.codec import SEMANTICS
from eigentensor_cluster.dispatcher import Dispatcher
from eigentensor_cluster.engine.joined import Joined
from eigentensor_cluster.peers import Peer
from eigentensor_cluster.sessions import Session, read_program
from eigentensor_cluster.tensors import Poison, Tensor
from eigentensor_cluster.threads import aside
from eigentensor_cluster.tokens import Member, Tokens

SECONDS = 10.0  #: until whoever comes has to have said as what
GRACE = 50.0  #: seconds that a session outlives its connection: of a client that was killed nothing is left in a minute
QUESTIONS = 64  #: of one client that wait for their tensors at a time
CONNECTIONS = 1024  #: at a time; who comes beyond is let go at once
SESSIONS = 256  #: at a time, of all clients
SLOTS = 4096  #: of a worker
LOOK = 0.1  #: seconds between looks at the log
ROOM = 0.005  #: seconds between looks whether a full session has room again

_OWN = Member(Role.KEEPER, "own")


class Door:
    """What listens, and who is inside. `status` gives the line that keepers are answered with."""

    def __init__(self, dispatcher: Dispatcher, tokens: Tokens, status: Callable[[], str], grace: float = GRACE) -> None:
        self.dispatcher = dispatcher
        self._tokens, self._status, self._grace = tokens, status, grace
        self._servers: list[asyncio.Server] = []
        self._inside: dict[bytes, tuple[Session, Peer | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers = 0

    async def listen_here(self, path: Path) -> None:
        """Lets this user's processes in, by a socket that nobody else reaches. Raises ConfigError, OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(path.parent)
        check_length(path)
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(lambda r, w: self._met(r, w, is_own=True), path)
        path.chmod(0o600)
        self._servers.append(server)

    async def listen(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Lets in whoever has a token, over TLS; the port. Raises ConfigError where nothing can listen."""
        try:
            server = await asyncio.start_server(
                lambda r, w: self._met(r, w, is_own=False), host, port, ssl=context, ssl_handshake_timeout=SECONDS
            )
        except OSError as error:
            fix = "Name another host or port: --bind HOST:PORT."
            raise ConfigError(f"nothing can listen on {host}:{port}: {error.strerror}", fix=fix) from error
        self._servers.append(server)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    async def close(self) -> None:
        """Lets nobody in any more, and ends what is inside."""
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session, _ in list(self._inside.values()):
            self.dispatcher.end(session)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_own: bool) -> None:
        peer, task = Peer(reader, writer, {Kind.HELLO}), asyncio.current_task()
        if len(self._tasks) >= CONNECTIONS:
            await peer.ended()
            return
        assert task is not None
        self._tasks.add(task)
        try:
            tls.keep_alive(writer.get_extra_info("socket"))
            hello = await self._hello(peer)
            member = self._member(hello, is_own=is_own)
            if hello.role is Role.WORKER:
                await self._work(peer, hello)
            elif hello.role is Role.KEEPER:
                await self._watched(peer)
            else:
                await self._serve(peer, hello, member)
        except FrameRefused as error:
            peer.send(failure(error.sequence, error.sequence, error))
        except EigenTensorError as error:
            peer.send(failure(0, 1, error))
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # it went, or the door closes
        finally:
            self._tasks.discard(task)
            await peer.ended()

    async def _hello(self, peer: Peer) -> Hello:
        """What somebody comes as. Raises FrameRefused, NotAdmitted, TimeoutError."""
        async with asyncio.timeout(SECONDS):
            async for chunk in peer.chunks():
                (_, hello), *more = chunk
                assert isinstance(hello, Hello)
                if more:
                    raise FrameRefused(2, "nothing may come before the answer to HELLO")
                return hello
        raise ConnectionLost("it said nothing")

    def _member(self, hello: Hello, *, is_own: bool) -> Member:
        """Who this is. Raises NotAdmitted."""
        if (hello.version, hello.semantics) != (VERSION, SEMANTICS):
            raise NotAdmitted(
                f"the cluster speaks version {VERSION} of the wire and semantics {SEMANTICS}, "
                f"not {hello.version} and {hello.semantics}",
                fix="Install the same version of eigentensor on both sides.",
            )
        member = self._tokens.member(hello.token)
        if member is None and is_own and not any(hello.token):
            return _OWN
        if member is None or member.role is not hello.role:
            fix = "Ask who runs the cluster for a token of this role, and name its file with --token."
            raise NotAdmitted(f"this token is not one of a {hello.role.name.lower()}", fix=fix)
        return member

    async def _serve(self, peer: Peer, hello: Hello, member: Member) -> None:
        """A client, until it is gone."""
        session = self._session(hello, member)
        if (before := self._inside.get(session.identity, (session, None))[1]) is not None:
            before.close()
        self._inside[session.identity] = session, peer
        peer.accepts(ASKED - {Kind.HELLO, Kind.WATCH})
        peer.goes_on(session.taken)
        peer.send(Welcome(session.identity, session.taken, member.name))
        conversation = _Conversation(self.dispatcher, session, peer)
        try:
            await conversation.last()
        finally:
            conversation.close()
            if conversation.is_over:
                self._end(session)
            elif self._inside.get(session.identity) == (session, peer):
                left = self._inside[session.identity] = session, None
                asyncio.get_running_loop().call_later(self._grace, self._forget, left)

    def _session(self, hello: Hello, member: Member) -> Session:
        """The session that a client goes on with, or a new one. Raises NotAdmitted."""
        if any(hello.session):
            session, _ = self._inside.get(hello.session, (None, None))
            if session is None or session.member != member.name:
                raise NotAdmitted("there is no such session any more", fix="Begin a new one.")
            session.go_on()
            return session
        if len(self._inside) >= SESSIONS:
            raise NotAdmitted(f"there are {SESSIONS} sessions, as many as may be", fix="Try again later.")
        return self.dispatcher.begin(member.name, member.weight, member.allowance)

    def _forget(self, left: tuple[Session, None]) -> None:
        """Ends a session whose client did not come back since it left."""
        if self._inside.get(left[0].identity) is left:
            self._end(left[0])

    def _end(self, session: Session) -> None:
        self._inside.pop(session.identity, None)
        self.dispatcher.end(session)

    async def _work(self, peer: Peer, hello: Hello) -> None:
        """A worker, until it is gone."""
        if not 1 <= hello.slots <= SLOTS:
            raise NotAdmitted(f"a worker has 1 to {SLOTS:,} slots, not {hello.slots:,}")
        self._workers += 1
        worker = Joined(peer, hello, f"w{self._workers}")
        peer.accepts(WORKED - {Kind.HELLO})
        peer.send(Welcome(self.dispatcher.secret, 1, worker.name))
        self.dispatcher.join(worker)
        try:
            async for chunk in peer.chunks():
                for sequence, frame in chunk:
                    worker.answer(sequence, frame)
        finally:
            worker.lose()
            self.dispatcher.lose(worker)

    async def _watched(self, peer: Peer) -> None:
        """A keeper, until it is gone."""
        peer.accepts({Kind.WATCH})
        peer.send(Welcome(bytes(16), 1, "keeper"))
        async for chunk in peer.chunks():
            for sequence, frame in chunk:
                assert isinstance(frame, frames.Watch)
                if frame.topic is Topic.STATUS:
                    peer.send(frames.Report(sequence, self._status()))
                else:
                    await self._reported(peer, sequence, is_followed=frame.topic is Topic.LOG)
            await peer.drained()

    async def _reported(self, peer: Peer, sequence: int, *, is_followed: bool) -> None:
        """Sends the lines of the log that are at hand, and if it is followed those that come, until the keeper is gone;
        else an empty one last. Raises ConnectionLost."""
        last = -1
        while True:
            for entry in self.dispatcher.log.entries(last):
                peer.send(frames.Report(sequence, format_entry(entry)))
                await peer.drained()
                last = entry.sequence
            if not is_followed:
                peer.send(frames.Report(sequence, ""))
                return
            if peer.is_gone:
                raise ConnectionLost("the keeper is gone")
            await asyncio.sleep(LOOK)


class _Conversation:
    """What one client says over one connection, and its answers."""

    def __init__(self, dispatcher: Dispatcher, session: Session, peer: Peer) -> None:
        self._dispatcher, self._session, self._peer = dispatcher, session, peer
        self._log, self._who = dispatcher.log, f"CLIENT {session.number}"
        self._answers: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()
        self.is_over = False  #: whether the client ended its session, or sent what nobody may

    async def last(self) -> None:
        """Returns when the client is gone. Raises FrameRefused."""
        try:
            async for chunk in self._peer.chunks():
                for sequence, frame in chunk:
                    self._recorded(sequence, frame)
                    if isinstance(frame, frames.Define):  # a large one takes long to read: others go on
                        program = await aside(partial(read_program, frame.program))
                        self._session.define(sequence, frame, program)
                    elif not self._session.take(sequence, frame):
                        await self._other(sequence, frame)
                self._dispatcher.settle(self._session)
                await self._peer.drained()
                while self._session.is_full and not self._peer.is_gone:
                    await asyncio.sleep(ROOM)
                if self.is_over:
                    return
        except FrameRefused as error:
            self.is_over = True
            self._log.record(Event.ERROR, self._who, "FRAME", frame=error.sequence, reason=error.what)
            raise

    def _recorded(self, sequence: int, frame: frames.Frame) -> None:
        """Writes down what came."""
        name = type(frame).__name__.upper()
        match frame:
            case frames.Put():
                self._log.record(Event.RECV, self._who, name, len(frame.data), frame=sequence, tensor=frame.handle)
            case frames.Run():
                root, inputs = frame.root.hex()[:8], len(frame.inputs)
                self._log.record(Event.RECV, self._who, name, frame=sequence, root=root, inputs=inputs)
            case frames.Define():
                self._log.record(Event.RECV, self._who, name, len(frame.program), frame=sequence)
            case _:
                self._log.record(Event.RECV, self._who, name, frame=sequence)

    def close(self) -> None:
        """Answers nothing any more."""
        for task in self._answers:
            task.cancel()

    async def _other(self, sequence: int, frame: frames.Frame) -> None:
        """A frame that is answered, or the last one."""
        if isinstance(frame, frames.End):
            self.is_over = True
        elif isinstance(frame, frames.Stats):
            self._peer.send(self._session.statistics(sequence, self._dispatcher.memory))
        elif isinstance(frame, frames.Fit):
            await self._fit(sequence, frame)
        elif isinstance(frame, frames.Get):
            await self._get(sequence, frame.handle)

    async def _fit(self, sequence: int, frame: frames.Fit) -> None:
        try:
            room = await self._dispatcher.fit(self._session, frame.root, frame.renewed)
        except EigenTensorError as error:
            self._peer.send(failure(sequence, sequence, error))
        else:
            self._peer.send(frames.Fitted(sequence, room.held, room.memory))

    async def _get(self, sequence: int, handle: int) -> None:
        try:
            tensor = self._dispatcher.asked(self._session, handle)
        except BindingError as error:
            self._fail(sequence, Poison(sequence, error))
            return
        if len(self._answers) >= QUESTIONS:
            self._dispatcher.settle(self._session)
            await asyncio.wait(self._answers, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer(sequence, tensor))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, sequence: int, tensor: Tensor) -> None:
        try:
            outcome = await self._dispatcher.value(self._session, tensor)
        except EigenTensorError as error:
            outcome = Poison(sequence, error)
        async with self._writing:
            if isinstance(outcome, Poison):
                self._fail(sequence, outcome)
                return
            self._log.record(Event.SEND, self._who, "VALUE", tensor.size, frame=sequence)
            with suppress(ConnectionLost):
                for frame in values(sequence, outcome, tensor.dtype):
                    self._peer.send(frame)
                    await self._peer.drained()

    def _fail(self, sequence: int, poison: Poison) -> None:
        """Answers a question with an error."""
        self._dispatcher.failed(self._session, "GET", sequence, poison)
        self._peer.send(poison.answer(sequence))
