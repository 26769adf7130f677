"""Reading a market: its tasks, checks, money and operators."""

from eigentensor.chain.contracts import talking_to
from eigentensor.chain.games import Games
from eigentensor.chain.views import Answer, Balance, Challenge, Conviction, Lock, Note, Seat, Stage, Task
from eigentensor.economics import Parameters, seat_deposit
from eigentensor.task.order import Order
from eigentensor.task.state import Cause, State

_SLASHING = 1  # EigenLayer's switch for slashes


class Reader(Games):
    """One market on one chain, read only."""

    # ---- The market ----

    def parameters(self) -> Parameters:
        """The market's parameters, as it computes with them."""
        return Parameters(*self._call(self.market, "parameters"))

    def task_at(self, task: bytes) -> Task:
        """What the chain remembers of a task; State.NONE if it was never posted."""
        executor, state, accepted_at, since, exec_, claim, *checks = self._call(self.market, "taskAt", task)
        with talking_to(self.network.rpc_url):
            return Task(executor, State(state), accepted_at, since, exec_, bytes(claim), *checks)

    def deadline_of(self, task: bytes) -> int:
        """The last block of what the task waits for; anybody may `close` it afterwards. 0 if there is none."""
        return int(self._call(self.market, "deadlineOf", task))

    def outputs_root_of(self, task: bytes) -> bytes:
        """The revealed outputs root; zero before."""
        return bytes(self._call(self.market, "outputsRootOf", task))

    def balance_of(self, account: str) -> Balance:
        """What an account has in the market: wei of the token, free and held. Both zero for strangers."""
        return Balance(*self._call(self.market, "accountOf", self._address(account)))

    # ---- Checks ----

    def seed_of(self, block: int) -> bytes | None:
        """The randomness that was recorded of a block; None: nobody has recorded it yet."""
        mix = bytes(self._call(self.market, "seedOf", block))
        return mix if any(mix) else None

    def seed_block_of(self, task: bytes) -> int:
        """The block whose randomness decides about the task; 0 before it is committed."""
        return int(self._call(self.market, "seedBlockOf", task))

    def is_drawn(self, order: Order) -> bool | None:
        """Whether the order's task is checked; None: not known yet."""
        known, drawn = self._call(self.market, "isDrawn", order.as_tuple())
        return bool(drawn) if known else None

    def seat_of(self, task: bytes, index: int) -> Seat:
        """Whose answer `index` is, once the task's seed is known."""
        return self.seat_at(int(self._call(self.market, "seatOf", task, index)))

    def answer_of(self, task: bytes, index: int) -> Answer:
        """The answer at an index; Stage.NONE if there is none."""
        operator, stage, claim = self._call(self.market, "answerOf", task, index)
        with talking_to(self.network.rpc_url):
            return Answer(str(operator), Stage(stage), bytes(claim))

    def answers_by(self, task: bytes) -> int:
        """The last block in which verifiers open their answers."""
        return int(self._call(self.market, "answersBy", task))

    def challenge_of(self, task: bytes, game_id: int) -> Challenge:
        """Whose bond is at stake in a game."""
        return Challenge(*self._call(self.market, "gameOf", task, game_id))

    def games_of(self, task: bytes) -> dict[int, bool]:
        """The numbers of all games about the task's result, in order, and whether each is open."""
        committed = self.task_at(task).committed_at
        return dict(sorted(self._games(task, committed).items())) if committed else {}

    def open_games(self, task: bytes) -> tuple[int, ...]:
        """The numbers of those that are not decided."""
        return tuple(number for number, is_open in self.games_of(task).items() if is_open)

    def open_game_count(self, task: bytes) -> int:
        """How many games about the task's result are not decided."""
        return int(self._call(self.disputes, "openGames", task))

    def conviction_of(self, task: bytes) -> Conviction:
        """Why a task is Convicted; Cause.NONE for others."""
        winner, cause, _, slashed, crowded = self._call(self.market, "convictionOf", task)
        with talking_to(self.network.rpc_url):
            return Conviction(Cause(cause), str(winner), bool(slashed), bool(crowded))

    # ---- Tokens, operators ----

    def tokens_of(self, account: str) -> int:
        """Wei of the token that an account owns outside of the market."""
        return int(self._call(self.token, "balanceOf", self._address(account)))

    def allowance(self, owner: str, spender: str) -> int:
        """Wei of the owner's tokens that `spender` may take."""
        return int(self._call(self.token, "allowance", self._address(owner), self._address(spender)))

    def is_operator(self, account: str) -> bool:
        """Whether the account is an operator of EigenLayer."""
        return bool(self._call(self.delegation_manager, "isOperator", self._address(account)))

    def is_member(self, operator: str) -> bool:
        """Whether the operator is in the market's operator set."""
        return bool(self._call(self.manager, "isMember", self._address(operator)))

    def signer_of(self, operator: str) -> tuple[str, int, int]:
        """The operator's hot signer (the zero address: none), its caps on collateral (wei) and stake (shares)."""
        signer, collateral_cap, stake_cap = self._call(self.manager, "signerOf", self._address(operator))
        return str(signer), int(collateral_cap), int(stake_cap)

    def seat_count(self) -> int:
        """How many seats were ever given out."""
        return int(self._call(self.manager, "seatCount"))

    def seat_at(self, place: int) -> Seat:
        """The seat at a place of the list. Raises Reverted beyond its end."""
        operator, since = self._call(self.manager, "seatAt", place)
        return Seat(str(operator), int(since))

    def seats_of(self, operator: str) -> int:
        """How many seats an operator has."""
        return int(self._call(self.manager, "seatsOf", self._address(operator)))

    def seat_stake(self) -> int:
        """Slashable stake that a seat takes, in wei of the token."""
        return int(self._call(self.manager, "SEAT"))

    def other_seats(self, operator: str) -> int:
        """How many seats all others have."""
        return int(self._call(self.manager, "otherSeats", self._address(operator)))

    def free_stake(self, operator: str, end: int) -> int:
        """Shares of the operator that no task holds and that can be slashed until block `end`, whatever happens."""
        return int(self._call(self.manager, "freeStake", self._address(operator), end))

    def locked_stake(self, operator: str) -> int:
        """Shares of the operator that its tasks hold."""
        return int(self._call(self.manager, "lockedStake", self._address(operator)))

    def stake_of(self, operator: str) -> int:
        """What is delegated to the operator in the market's strategy, in wei of the token, rounded down."""
        strategy = self._address(self.deployment.strategy)
        return self.worth_of(
            int(self._call(self.delegation_manager, "operatorShares", self._address(operator), strategy))
        )

    def worth_of(self, shares: int) -> int:
        """Wei of the token for shares of the market's strategy, rounded down."""
        return int(self._call(self.strategy, "sharesToUnderlyingView", shares))

    def shares_of(self, amount: int) -> int:
        """Shares of the market's strategy for wei of the token, rounded down."""
        return int(self._call(self.strategy, "underlyingToSharesView", amount))

    def stake_delay(self) -> int:
        """Blocks for which present stake can be slashed."""
        return int(self._call(self.manager, "stakeDelay"))

    def lock_of(self, task: bytes, operator: str) -> Lock:
        """What a task holds of its executor's stake."""
        return Lock(*self._call(self.manager, "lockOf", task, self._address(operator)))

    def allocation_of(self, operator: str) -> int:
        """The part (WAD) of what is delegated to the operator that the market's operator set can slash."""
        arguments = (self._address(operator), self.operator_set(), self._address(self.deployment.strategy))
        magnitude, *_ = self._call(self.allocation_manager, "getAllocation", *arguments)
        return int(magnitude)

    def allocatable_of(self, operator: str) -> int:
        """The part (WAD) of what was delegated to the operator that it has allocated to no operator set."""
        strategy = self._address(self.deployment.strategy)
        return int(self._call(self.allocation_manager, "getAllocatableMagnitude", self._address(operator), strategy))

    def magnitude_of(self, operator: str) -> int:
        """The part (WAD) of what was delegated to the operator that slashes by all operator sets have left."""
        strategy = self._address(self.deployment.strategy)
        return int(self._call(self.allocation_manager, "getMaxMagnitude", self._address(operator), strategy))

    def deallocation_of(self, operator: str) -> tuple[int, int]:
        """What is being taken from the market's operator set: the part (WAD), and the block from which it is gone."""
        arguments = (self._address(operator), self.operator_set(), self._address(self.deployment.strategy))
        _, pending, block = self._call(self.allocation_manager, "getAllocation", *arguments)
        return (-int(pending), int(block)) if pending < 0 else (0, 0)

    def queued_stake(self, operator: str) -> int:
        """Wei of the token that wait to be withdrawn from the operator and can be slashed until then."""
        strategy = self._address(self.deployment.strategy)
        arguments = (self._address(operator), strategy)
        return self.worth_of(int(self._call(self.delegation_manager, "getSlashableSharesInQueue", *arguments)))

    def lasting_stake(self, operator: str) -> int:
        """Wei of the token that stay slashable here when every deallocation that has begun is through."""
        strategies = [self._address(self.deployment.strategy)]
        arguments = (self.operator_set(), [self._address(operator)], strategies, (1 << 32) - 1)
        ((shares,),) = self._call(self.allocation_manager, "getMinimumSlashableStake", *arguments)
        return self.worth_of(int(shares))

    def is_slashing_paused(self) -> bool:
        """Whether EigenLayer refuses all slashes now."""
        return bool(self._call(self.allocation_manager, "paused(uint8)", _SLASHING))

    def note_of(self, slash_id: int) -> Note:
        """What the bounty of a slash will pay."""
        task, amount, beneficiaries = self._call(self.bounty, "noteOf", slash_id)
        return Note(bytes(task), int(amount), tuple(map(str, beneficiaries)))

    def payable_from(self, slash_id: int) -> int:
        """The first block in which the core lets the bounty of a slash be paid, unless it is paused; 0: at once."""
        return int(self._call(self.bounty, "payableFrom", slash_id))

    def covers_seats(self, operator: str) -> bool:
        """Whether the operator's stake covers all its seats: otherwise none of them answers, and anybody may prune."""
        return self.lasting_stake(operator) >= self.seats_of(operator) * self.seat_stake()

    def held_of(self, account: str) -> int:
        """Wei that tasks, answers and challenges hold of an account's balance: all but the deposits of its seats."""
        deposits = self.seats_of(account) * seat_deposit(self.deployment.parameters)
        return self.balance_of(account).collateral - deposits

    def operator_set(self) -> tuple[str, int]:
        """The market's operator set, as EigenLayer names it: service manager and number."""
        return self._address(self.deployment.service_manager), int(self._call(self.manager, "OPERATOR_SET"))
