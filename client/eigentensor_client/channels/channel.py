"""A channel: opened at an operator, called through, funded, watched, left, ended. The wallet signs its messages to the
chain; vouchers are signed by a key of the channel's own, which lies in the user's state folder."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np

from eigentensor import merkle, spending
from eigentensor.channel import BatchState, ChannelState, batch_of
from eigentensor.channel.calls import Computation, DealRequest, ProgramQuote, Quote
from eigentensor.channel.payer import Payer as Side
from eigentensor.economics import shares
from eigentensor.errors import (
    BindingError,
    CallRefused,
    ChannelClosed,
    ChannelError,
    ChannelSpent,
    InsufficientFunds,
    NoResponse,
    NotYet,
    Reverted,
    WrongResult,
)
from eigentensor.program import Kind, Program, Role
from eigentensor.program.binding import shaped_results
from eigentensor.receipt.calls import SignedCall
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor.task import NONE, Signer
from eigentensor_client.channels import opening
from eigentensor_client.channels.caller import Caller, Keep, Request, Response, kept_nowhere
from eigentensor_client.channels.endpoint import PATIENCE, Endpoint
from eigentensor_client.channels.ledger import Account, Agreement, Ledger, Stage
from eigentensor_client.channels.opening import Facts, Wish
from eigentensor_client.channels.repeating import Repeater
from eigentensor_client.channels.watch import Seen, Watch, Watching
from eigentensor_client.orders import Work
from eigentensor_client.payer import Payer
from eigentensor_client.transfer import Report, bound, silent

_MILLION = 1_000_000
_OFFERED = 15.0  # seconds in which an offer that is quoted comes onto the chain
_CONVICTED = BatchState.CONVICTED.name.lower()


@dataclass(frozen=True, slots=True)
class Policy:
    """What a client does with a channel beside calling: `recheck`, the share of calls that it executes again, from 0 to
    1; `looks`, the seconds between two looks at what was committed, 0: none from here; `unsafe` executes without the
    sandbox."""

    recheck: float = 0.0
    looks: float = 10.0
    unsafe: bool = False

    def __post_init__(self) -> None:
        """Raises BindingError."""
        if not 0 <= self.recheck <= 1 or self.looks < 0:
            raise BindingError(f"recheck is {self.recheck}, looks is {self.looks}", fix="Write 0 to 1, and seconds.")


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call gave: its outputs, verified, and the root of the new states, which the operator keeps."""

    channel: "Channel" = field(repr=False)
    response: Response = field(repr=False)
    outputs: Mapping[str, np.ndarray[Any, Any]]

    @property
    def index(self) -> int:
        """Which call of the channel, from zero."""
        return self.response.receipt.index

    @property
    def states(self) -> bytes:
        """The bindings root of the new states; zeros: there are none."""
        return self.response.states

    @property
    def state(self) -> str:
        """`signed`; once the watch has seen its batch `committed`, `checked(k)`, `final, …` or `convicted`."""
        return self.channel.state_of(self.index)

    @property
    def receipt(self) -> SignedCall:
        """What proves it, as it stands when it is asked for."""
        return self.channel.receipt(self.index)


class Channel:
    """One channel of one client, which this process alone has until it is closed; for several threads at once.

    Usable as a context manager: at its end it is let go, and stays open on chain.
    """

    def __init__(
        self, client: Payer, ledger: Ledger, account: Account, key: Signer, endpoint: Endpoint, policy: Policy,
        keep: Keep = kept_nowhere,
    ) -> None:  # fmt: skip
        """Takes the channel. Raises ChannelBusy if another process has it."""
        self.client, self.ledger = client, ledger
        self._endpoint = endpoint
        self._lock = ledger.lock(account.agreement.channel)
        deployment = client.network.deployment
        recheck = round(policy.recheck * _MILLION)
        self.caller = Caller(ledger, account, key, endpoint, deployment.token, recheck, keep)
        self._repeater = (
            Repeater(client.chain, client.gateway, ledger, unsafe=policy.unsafe) if policy.recheck else None
        )
        self._watch, self._policy = Watch(client.chain, ledger, self._repeater), policy
        self._quote: Quote | None = None
        self._new_until = 0.0
        self._watching: Watching | None = None

    # ---- Beginning ----

    @classmethod
    def open(
        cls, client: Payer, url: str, wish: Wish, *, policy: Policy | None = None, ledger: Ledger | None = None,
        by_wallet: bool = False, seconds: float = PATIENCE, report: Report = silent,
        transport: httpx.BaseTransport | None = None, keep: Keep = kept_nowhere,
    ) -> Self:  # fmt: skip
        """Opens one at the operator whose endpoint is at `url`, and takes it. `by_wallet`: the client's own key signs
        vouchers. `keep` takes the outputs of each call, those that are taken up as well.

        Refuses before anything is signed or paid: TermsRefused, CallRefused, ChannelSpent, InsufficientFunds. Raises
        NoResponse, ChainError; killed after the deal was written, `take_up` goes on.
        """
        spending.check()
        with ExitStack() as undo:
            ledger = ledger or undo.enter_context(Ledger())
            endpoint = undo.enter_context(Endpoint(url, transport, min(10.0, seconds)))
            domain = client.network.deployment.channels_domain
            report("asking for quotes")
            quote = opening.choose(endpoint.quotes(), wish, domain, client.amount)
            _wait_until_offered(client, quote, min(_OFFERED, seconds), report)
            opening.check_chain(quote, wish, _facts(client, quote))
            _check_funds(client, wish.deposit)
            key: Signer = client.chain.account if by_wallet else ledger.new_key()
            parties = (quote.pool, client.address, key.address)
            request = DealRequest(*parties, opening.most_of(quote, wish), wish.value_at_risk)
            signed = endpoint.deal(request)
            opening.check_deal(signed, domain, quote.offer.signer, request, client.chain.node.block_number())
            agreement = Agreement(endpoint.url, domain, quote.offer, signed.deal, signed.signature)
            first = _wait_until_served(client, endpoint, quote, seconds, report)
            account = Account(agreement, wish.deposit, Stage.AGREED, begun=first, first=first)
            ledger.add(account)
            channel = cls(client, ledger, account, key, endpoint, policy or Policy(), keep)
            undo.pop_all()
        try:
            report("opening the channel")
            channel._send_opening(seconds, report)
            channel._watch_on()
        except BaseException:
            channel.close()
            raise
        return channel

    @classmethod
    def take_up(
        cls, client: Payer, name: str, *, policy: Policy | None = None, ledger: Ledger | None = None,
        transport: httpx.BaseTransport | None = None, keep: Keep = kept_nowhere,
    ) -> Self:  # fmt: skip
        """The channel of that name, or of the beginning of it, from another process. Raises TaskNotFound, ChannelBusy,
        ConfigError without its key."""
        ledger = ledger or Ledger()
        account = ledger.account(name, client.network.deployment.channels_domain)
        payer = account.agreement.deal.payer
        key = client.chain.account if payer.lower() == client.address.lower() else ledger.key(payer)
        endpoint = Endpoint(account.agreement.url, transport)
        channel = cls(client, ledger, account, key, endpoint, policy or Policy(), keep)
        try:
            if account.stage is Stage.AGREED:
                channel._send_opening(PATIENCE, silent)
            channel._watch_on()
        except BaseException:
            channel.close()
            raise
        return channel

    def _send_opening(self, seconds: float, report: Report) -> None:
        """Opens it on chain, once, and waits until the operator has seen that."""
        agreed = self.caller.account.agreement
        if self.client.chain.channels.channel_at(agreed.channel).state is ChannelState.NONE:
            arguments = (agreed.offer, agreed.deal, agreed.signature, self.caller.account.deposit)
            self.client.chain.channels.open(*arguments)
        self.caller.update(lambda account, payer: (replace(account, stage=Stage.OPEN), payer))
        self._new_until = end = time.monotonic() + seconds
        while True:
            try:
                self._endpoint.status(agreed.channel)
                return
            except ChannelError as error:
                if time.monotonic() > end:
                    raise NoResponse(
                        f"the channel is open, and its operator takes no calls yet: {error.what}"
                    ) from None
            report("waiting for the operator to see the channel")
            time.sleep(self.client.poll)

    def _watch_on(self) -> None:
        if self._policy.looks:
            self._watching = Watching(self.look, self._policy.looks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process have it. On chain it stays as it is."""
        if self._watching is not None:
            self._watching.close()
            self._watching = None
        if self._repeater is not None:
            self._repeater.close()
        self._endpoint.close()
        self._lock.close()

    # ---- What there is ----

    @property
    def name(self) -> str:
        """The channel's name, in hex."""
        return self.account.agreement.channel.hex()

    @property
    def account(self) -> Account:
        """How it stands, as far as it was looked at."""
        return self.caller.account

    @property
    def payer(self) -> Side:
        """What is signed."""
        return self.caller.payer

    def state_of(self, index: int) -> str:
        """As `CallResult.state`."""
        return self.ledger.state_of(self.account.agreement.channel, index)

    def receipt(self, index: int) -> SignedCall:
        """The receipt of a call as it stands, as far as its batch was looked at. Raises TaskNotFound."""
        return self.ledger.receipt(self.account, index)

    # ---- Calls ----

    def call(
        self, program: Program, root: bytes, inputs: Mapping[str, Any], *, weights: bytes = NONE,
        states: bytes | Mapping[str, Any] = NONE, variables: Mapping[str, int] | None = None, repeat: int = 1,
        max_price: int | None = None, seconds: float = PATIENCE, salt: int | None = None,
    ) -> CallResult:  # fmt: skip
        """The outputs of a program, whose root is `root`, verified: in milliseconds, where the operator is near.

        `weights` is a bindings root that the operator has; so is `states`, unless they are tensors, which come along.
        `max_price` in wei is for all repeats; `salt`, 192 bits that nobody guesses, names the call in the ledger.
        Raises BindingError, CallRefused, ChannelClosed, ChannelSpent, NoResponse, WrongReceipt, WrongResult.
        """
        parts: list[Any] = [{} if part == NONE else part for part in (weights, states)]
        tensors = bound(Work(program, dict(inputs), parts[0], parts[1], variables or {}, repeat))
        roots = {role: merkle.role_root(program, role, own) if own else NONE for role, own in tensors.items()}
        begun = states if isinstance(states, bytes) else roots[Role.STATE]
        computation = Computation(root, weights, begun, dict(variables or {}), repeat)
        body = _body(program, {**tensors[Role.INPUT], **tensors.get(Role.STATE, {})})
        price = self.quoted(root, repeat, max_price).price_of(repeat)
        response = self._called(Request(computation, body, price, roots[Role.INPUT], salt), seconds)
        return CallResult(self, response, outputs_of(program, response.outputs))

    def _called(self, request: Request, seconds: float) -> Response:
        """The operator sees a channel that was opened, or funded, just now some blocks later than this client."""
        while True:
            try:
                return self.caller.call(request, seconds)
            except (ChannelClosed, ChannelSpent) as error:
                is_known_here = isinstance(error, ChannelSpent) and error.needed > 0
                if is_known_here or self.account.stage is not Stage.OPEN or time.monotonic() > self._new_until:
                    raise
                time.sleep(self.client.poll)

    def resume(self, seconds: float = PATIENCE) -> list[Response]:
        """Takes up calls that were under way when a process ended. Raises as `call`."""
        return self.caller.resume(seconds)

    def quoted(self, program: bytes, repeat: int = 1, most: int | None = None) -> ProgramQuote:
        """What the operator asks for a program. It is asked once; a call that is refused for its price asks anew.

        Raises CallRefused for what is not offered, or costs more than `most` wei with so many repeats, NoResponse.
        """
        if self._quote is None:
            pool = self.account.agreement.deal.pool
            self._quote = next((one for one in self._endpoint.quotes() if one.pool == pool), None)
        if self._quote is None:
            raise CallRefused("the operator offers the channel's pool no more", fix="Open another channel.")
        try:
            quoted = opening.quoted(self._quote, program, repeat)
        except CallRefused:
            self._quote = None
            raise
        if most is not None and (price := quoted.price_of(repeat)) > most:
            say = self.client.amount
            self._quote = None
            raise CallRefused(f"a call costs {say(price)}, more than {say(most)}", fix="Raise max_price.")
        return quoted

    # ---- Money ----

    def fund(self, amount: int) -> None:
        """Adds `amount` wei to the deposit. Raises InsufficientFunds, ChainError."""
        _check_funds(self.client, amount, 0)
        self.client.chain.channels.fund(self.account.agreement.channel, amount)
        self._new_until = time.monotonic() + PATIENCE
        self.look()

    def leave(self) -> None:
        """Makes the newest batch the channel's last: no more calls then. Raises ChainError."""
        agreed = self.account.agreement
        self.caller.update(lambda account, payer: (replace(account, stage=Stage.LEFT), payer))
        chain = self.client.chain.channels
        if chain.channel_at(agreed.channel).state is ChannelState.OPEN:
            try:
                chain.leave(agreed.offer, agreed.deal)
            except Reverted:
                if chain.channel_at(agreed.channel).state is ChannelState.OPEN:
                    raise  # else its operator left or concluded it meanwhile

    def conclude(self, seconds: float = PATIENCE) -> int:
        """Ends it at once, where its operator agrees: both sign a last voucher, and it is sent to the chain. The wei
        that the wallet has of it then, with what batches gave back.

        Whoever concludes says that all calls are worth what they cost: no later conviction, and no share that nobody
        checked, pays anything back. Raises CallRefused where a batch of it is convicted, ChannelError where the
        operator does not sign, NoResponse; then it is left, and `leave` and `end` end it.
        """
        agreed, chain = self.account.agreement, self.client.chain.channels
        self.look()
        if any(line.state == _CONVICTED for line in self.ledger.lines(agreed.channel)):
            raise CallRefused("a batch of the channel is convicted", fix="Leave it, and end it.")
        if chain.channel_at(agreed.channel).state in (ChannelState.OPEN, ChannelState.LEFT):
            voucher, payers, signers = self.caller.conclude(seconds)
            try:
                chain.conclude(agreed.offer, agreed.deal, voucher, payers, signers)
            except Reverted:
                if chain.channel_at(agreed.channel).state is not ChannelState.CONCLUDED:
                    raise  # else the operator was faster
        return self._collected()

    def end(self) -> int:
        """Gets back what is left of the deposit, once the last batch is committed or has lapsed; the wei that the
        wallet has of it then, with what batches gave back. Raises NotYet before, ChannelClosed before it was left."""
        agreed, chain = self.account.agreement, self.client.chain.channels
        channel = chain.channel_at(agreed.channel)
        if channel.state is ChannelState.LEFT or (channel.state is ChannelState.OPEN and self._is_pool_over()):
            try:
                chain.end(agreed.offer, agreed.deal)
            except Reverted as error:
                raise NotYet(
                    f"the channel's last batch, {channel.last}, is not over: {error.what}",
                    fix="Ask again when it is committed, or has lapsed.",
                ) from None
        elif channel.state is ChannelState.OPEN:
            raise ChannelClosed("the channel is open", fix="Leave it first.")
        return self._collected()

    def _collected(self) -> int:
        """Takes what the account has in the market for paid calls into its wallet."""
        self.look()
        chain = self.client.chain.channels
        balance = chain.balance_of(self.client.address).balance
        if balance:
            chain.withdraw(self.client.address, balance)
        return balance

    def _is_pool_over(self) -> bool:
        return self.client.chain.channels.pool_at(self.account.agreement.deal.pool).over

    # ---- Watching ----

    def look(self) -> list[Seen]:
        """Looks once at what the chain has of it, and does what is due: see `Watch`. Raises ChainError."""
        account, seen = self._watch.look(self.caller.account)

        def change(known: Account, payer: Side) -> tuple[Account, Side]:
            stage = known.stage if known.stage is Stage.LEFT and account.stage is Stage.OPEN else account.stage
            payer = replace(payer, deposit=account.deposit, paid=account.paid).begun(account.begun)
            return replace(account, stage=stage), payer

        self.caller.update(change)
        return seen


def _facts(client: Payer, quote: Quote) -> Facts:
    chain, offer = client.chain, quote.offer
    block, pool = chain.node.block_number(), chain.channels.pool_at(quote.pool)
    p = client.network.deployment.parameters
    needed = chain.stake.shares_of(opening.needed_stake(p, quote))
    batch = batch_of(quote.pool, quote.number)
    state = chain.channels.batch_at(batch).state if quote.number else BatchState.NONE
    if state is BatchState.BEGUN:
        stake = chain.stake.lock_of(batch, offer.operator).shares
    else:
        stake = chain.stake.free_stake(offer.operator, block + shares.lifetime(p, offer.exec, offer.epoch))
    return Facts(block, pool, state, stake, needed, chain.stake.is_slashing_paused())


def _wait_until_offered(client: Payer, quote: Quote, seconds: float, report: Report) -> None:
    """An operator that has just started quotes its offer some blocks before that is on chain."""
    end = time.monotonic() + seconds
    while not client.chain.channels.pool_at(quote.pool).offered and time.monotonic() < end:
        report("waiting for the operator's offer to be on chain")
        time.sleep(client.poll)


def _wait_until_served(client: Payer, endpoint: Endpoint, quote: Quote, seconds: float, report: Report) -> int:
    """The number of the oldest batch whose receipts may count when calls stand in one that does not end soon."""
    end = time.monotonic() + seconds
    while not opening.is_serving(quote, facts := _facts(client, quote)):
        if time.monotonic() > end:
            raise CallRefused("the operator begins no batch that calls could stand in", fix="Ask again later.")
        report("waiting for the operator to begin a batch")
        time.sleep(client.poll)
        quote = next((one for one in endpoint.quotes() if one.pool == quote.pool), quote)
    return facts.pool.next


def _check_funds(client: Payer, amount: int, fee: int | None = None) -> None:
    needed = amount + (client.network.deployment.parameters.g_chunk if fee is None else fee)
    chain, say = client.chain, client.amount
    balance, tokens = chain.channels.balance_of(client.address).balance, chain.token.balance_of(client.address)
    if balance + tokens < needed:
        raise InsufficientFunds(
            f"{say(needed)} are needed, {client.address} has {say(balance)} there and {say(tokens)} in its wallet",
            fix="Name a smaller deposit, or get tokens.",
            topic=client.network.funding,
        )


def _body(program: Program, tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    dtypes = {buffer.name: buffer.dtype for buffer in program.buffers}
    return dump_safetensors(tensors, dtypes) if tensors else b""


def outputs_of(program: Program, data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a call, as they came, in the program's shapes. Raises WrongResult for those of another program,
    which the operator signed."""
    try:
        flat = parse_flat(data) if program.outputs else {}
        if flat.keys() != program.outputs.keys():
            raise BindingError(f"they are named {', '.join(flat) or 'nothing'}")
        return shaped_results(program, Kind.OUTPUT, flat)
    except BindingError as error:
        raise WrongResult(f"the outputs do not fit the program: {error.what}") from None
