"""A channel for asyncio: what `Channel` does, in threads, so that others run meanwhile."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from eigentensor.program import Program
from eigentensor.receipt.calls import SignedCall
from eigentensor.task import NONE
from eigentensor_client.channels.caller import Response
from eigentensor_client.channels.channel import CallResult, Channel
from eigentensor_client.channels.endpoint import PATIENCE
from eigentensor_client.channels.ledger import Account
from eigentensor_client.channels.opening import Wish
from eigentensor_client.channels.watch import Seen
from eigentensor_client.payer import Payer
from eigentensor_client.steps import in_thread


class AsyncChannel:
    """As `Channel`, for any number of tasks of one loop at once; as many calls are under way as the offer lets.

    What was signed is finished before a cancellation goes on: nobody is left with a call that nobody waits for.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    @classmethod
    async def open(cls, client: Payer, url: str, wish: Wish, **options: Any) -> Self:
        """As `Channel.open`."""
        return cls(await in_thread(Channel.open, client, url, wish, **options))

    @classmethod
    async def take_up(cls, client: Payer, name: str, **options: Any) -> Self:
        """As `Channel.take_up`."""
        return cls(await in_thread(Channel.take_up, client, name, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """As `Channel.close`."""
        await in_thread(self.channel.close)

    @property
    def account(self) -> Account:
        """As `Channel.account`."""
        return self.channel.account

    async def call(
        self, program: Program, root: bytes, inputs: Mapping[str, Any], *, weights: bytes = NONE,
        states: bytes | Mapping[str, Any] = NONE, variables: Mapping[str, int] | None = None, repeat: int = 1,
        max_price: int | None = None, seconds: float = PATIENCE,
    ) -> CallResult:  # fmt: skip
        """As `Channel.call`."""
        return await in_thread(
            self.channel.call, program, root, inputs, weights=weights, states=states, variables=variables,
            repeat=repeat, max_price=max_price, seconds=seconds,
        )  # fmt: skip

    async def resume(self, seconds: float = PATIENCE) -> list[Response]:
        """As `Channel.resume`."""
        return await in_thread(self.channel.resume, seconds)

    async def fund(self, amount: int) -> None:
        """As `Channel.fund`."""
        await in_thread(self.channel.fund, amount)

    async def leave(self) -> None:
        """As `Channel.leave`."""
        await in_thread(self.channel.leave)

    async def conclude(self, seconds: float = PATIENCE) -> int:
        """As `Channel.conclude`."""
        return await in_thread(self.channel.conclude, seconds)

    async def end(self) -> int:
        """As `Channel.end`."""
        return await in_thread(self.channel.end)

    async def look(self) -> list[Seen]:
        """As `Channel.look`."""
        return await in_thread(self.channel.look)

    async def receipt(self, index: int) -> SignedCall:
        """As `Channel.receipt`."""
        return await in_thread(self.channel.receipt, index)
