"""A text that this machine writes: where its reading begins, and what of it is kept for others that begin alike."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from eigentensor.runtime.memory.untouched import copied, rewrite
from eigentensor_client.steps import in_thread
from eigentensor_client.writing import FEW, Step
from eigentensor_serve.ledger import Job
from eigentensor_serve.openai.decoding import Decoding, Values
from eigentensor_serve.openai.prefixes import Prefixes

READS = 8  #: chunks that this machine reads at once: nobody may wait for the answer any more


@dataclass(slots=True)
class Here:
    """The steps of one text, whose states lie in a `room` from its beginning to its end."""

    decoding: Decoding
    room: dict[str, Values]
    caller: str
    prefixes: Prefixes[Mapping[str, Values]]
    prompt: Sequence[int] = ()
    stops: tuple[int, ...] = ()
    jobs: list[Job] = field(default_factory=list)
    read: Step | None = None  # the last one, while it is to be seen whether it is worth keeping

    async def begin(self, prompt: Sequence[int]) -> int:
        """As `Writer.begin`: states that have read more will do, too, unless they forget."""
        self.prompt, chunk, goes_back = prompt, self.decoding.programs.chunk, self.decoding.programs.goes_back
        found = None
        if self.decoding.programs.reader is not None:
            alike = self.prefixes.alike(self._of, prompt, chunk)
            found = alike if goes_back else self.prefixes.longest(self._of, prompt, chunk)
            if not goes_back:  # what several texts have in common is worth keeping, and so is each whole
                self.stops = ((alike or (0, None))[0], len(prompt) // chunk * chunk)
        position, states = found or (0, self.decoding.first)
        await in_thread(self._take, states)
        return position

    def _take(self, states: Mapping[str, Values]) -> None:
        for name, array in states.items():
            rewrite(self.room[name], array)

    async def most(self, stride: int = 1) -> int:
        """Of the program; of chunks as many as take some seconds."""
        return self.decoding.programs.writer.max_repeat if stride == 1 else READS

    async def write(self, step: Step) -> Values:
        """The outputs of a step: while others wait for tokens, chunks are read one by one.

        What a step has read is kept when the next one begins, or at the `end`: its token does not wait for that.
        """
        await self.end()
        if step.stride == 1:
            return await self.decoding.write(self.room, step)
        done = 0
        while done < step.repeat:
            position = step.variables["position"] + done * step.stride
            stop = min((stop for stop in self.stops if position < stop < step.last), default=None)
            most = step.repeat if stop is None else (stop - position) // step.stride
            part = step.part(done, min(most, 1) if self.decoding.others else most)
            await self.end()
            tokens = await self.decoding.read(self.room, part)
            self.read = part
            done += part.repeat
        return tokens

    async def end(self) -> None:
        """Keeps what is worth it of what was read. To be called when the text ends, while its room is there."""
        part, self.read = self.read, None
        if part is not None:
            await self._keep(part)

    async def _keep(self, part: Step) -> None:
        """Remembers the states after whole chunks of the prompt; those that go back, when all of it is read."""
        read = min(part.last, len(self.prompt)) // part.stride * part.stride
        goes_back, left = self.decoding.programs.goes_back, len(self.prompt) + 1 - part.last
        if (left < FEW) if goes_back else (part.last == read):
            size = sum(array.nbytes for array in self.room.values())
            if self.prefixes.holds(size):
                states = await in_thread(lambda: {name: copied(array) for name, array in self.room.items()})
                self.prefixes.add(self._of, self.prompt[:read], states, size, does_for_less=goes_back)

    @property
    def _of(self) -> Hashable:
        app = self.decoding.programs.app
        return self.caller, app.program, app.reader, app.weights, app.states
