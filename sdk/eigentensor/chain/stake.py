"""Messages of operators to EigenLayer and to the service manager: stake, membership, signer, seats."""

from eigentensor.chain.account import Account
from eigentensor.chain.sender import Mined
from eigentensor.economics import WAD


class Staker(Account):
    """An account that may be an operator, or an operator's signer."""

    def register_as_operator(self) -> Mined:
        """Makes the account an operator of EigenLayer that stakes for itself, allocating at once. No way back."""
        zero = self._address("0x" + "00" * 20)
        return self._send_once(self.delegation_manager, "registerAsOperator", zero, 0, "")

    def deposit_stake(self, amount: int, *, once: str | None = None) -> Mined:
        """Deposits tokens as stake into the market's strategy; approves what the strategy manager may not take yet."""
        self.ensure_allowance(self.deployment.strategy_manager, amount)
        arguments = (self._address(self.deployment.strategy), self._address(self.deployment.token), amount)
        return self._send(self.strategy_manager, "depositIntoStrategy", *arguments, once=once)

    def join_operator_set(self) -> Mined:
        """Registers the account, an operator of EigenLayer, for the market's operator set."""
        avs, set_id = self.operator_set()
        arguments = (self._address(self.address), (avs, [set_id], b""))
        return self._send(self.allocation_manager, "registerForOperatorSets", *arguments)

    def leave_operator_set(self) -> Mined:
        """Takes the account out of the market's operator set; its stake stays slashable for EigenLayer's delay."""
        avs, set_id = self.operator_set()
        arguments = (self._address(self.address), avs, [set_id])
        return self._send(self.allocation_manager, "deregisterFromOperatorSets", arguments)

    def allocate(self, magnitude: int = WAD, *, once: str | None = None) -> Mined:
        """Lets the market's operator set slash `magnitude` (WAD) of what is delegated to the account."""
        strategies = [self._address(self.deployment.strategy)]
        arguments = (self._address(self.address), [(self.operator_set(), strategies, [magnitude])])
        return self._send(self.allocation_manager, "modifyAllocations", *arguments, once=once)

    def set_signer(self, signer: str, collateral_cap: int, stake_cap: int, *, once: str | None = None) -> Mined:
        """Names the account's hot signer, and what tasks may hold: wei of collateral, shares of stake."""
        arguments = (self._address(signer), collateral_cap, stake_cap)
        return self._send(self.manager, "setSigner", *arguments, once=once)

    def enlist(self, operator: str, count: int, *, once: str | None = None) -> Mined:
        """Takes `count` more seats for the operator; its slashable stake must cover all that it has, and its balance
        in the market their deposits."""
        return self._send(self.manager, "enlist", self._address(operator), count, once=once)

    def leave(self, operator: str, *, once: str | None = None) -> Mined:
        """Gives up all seats of the operator."""
        return self._send(self.manager, "leave", self._address(operator), once=once)

    def prune(self, operator: str, *, once: str | None = None) -> Mined:
        """Takes the seats away that the operator's stake does not cover any more; their deposits are the account's."""
        return self._send(self.manager, "prune", self._address(operator), once=once)

    def unlock(self, task: bytes, operator: str) -> Mined:
        """Frees what a task holds of its executor's stake after the lock's end."""
        return self._send_once(self.manager, "unlock", task, self._address(operator))
