"""What to do about a refusal of a contract."""

#: By the name of the error. Those of constructors, and those that no account's message can meet, have none.
FIXES = {
    "AcceptanceOver": "Sign a new order with a later accept_by.",
    "ActivelyDelegated": "The account is delegated: undelegate it at EigenLayer, or take another account.",
    "AlreadyAnswered": "One answer of each operator counts.",
    "AlreadyDemanded": "A demand is made once: it names all leaves.",
    "AlreadyMemberOfSet": "It is a member, or still answers for having been one: wait for that to end.",
    "AlreadyOpened": "Somebody has revealed or exposed this slot before.",
    "AlreadyPosted": "The order is a task already; another nonce makes another task.",
    "AlreadySlashed": "The executor is slashed already: the bounty pays out what it lost.",
    "AnswersOver": "Whoever may answer has: the executor may reveal, and nobody exposes any more.",
    "ClockNotOver": "Wait for the other side, until its clock is over.",
    "ClockOver": "The move came too late: the other side may end the game by `timeout`.",
    "CollateralCapExceeded": "Wait for open tasks, or let the operator's owner raise the cap.",
    "CurrentlyPaused": "EigenLayer has paused this: nothing is lost, try again later.",
    "ERC20InsufficientAllowance": "Approve the tokens first.",
    "ERC20InsufficientBalance": "The account has too few tokens.",
    "FullySlashed": "Slashes have left nothing of the operator's stake: take another account.",
    "GamesOpen": "Wait for the end of the open games: each side's clock is bounded.",
    "InsufficientBalance": "Deposit what is missing into the market.",
    "InsufficientMagnitude": "Other operator sets have the rest of the stake: ask for a smaller allocation.",
    "InsufficientStake": "Wait for open tasks, or deposit and allocate more stake.",
    "InvalidOperator": "Become an operator of EigenLayer first.",
    "InvalidPermissions": "EigenLayer knows another admin for this account: let that one send it.",
    "LengthMismatch": "Give as many of one list as of the other.",
    "LockNotOver": "The lock ends by itself at the block that the error names.",
    "LockOver": "The time to slash is over.",
    "ModificationAlreadyPending": "Another change of the allocation is under way: wait for its block.",
    "NoSeat": "No seat was drawn yet, or there never were so many.",
    "NoSeed": "Record the seed first: `seed`, from the block after the seed block on.",
    "NotAMember": "Join the operator set first.",
    "NotASeedBlock": "Seed blocks are multiples of the market's grid.",
    "NotAdmitted": "The operator, or its place in the list, is not among those that the order admits.",
    "NotDemanded": "Show the very leaves that the client demanded, in their order, once.",
    "NotDrawn": "The task is not checked: it becomes final by itself.",
    "NotEnoughSeats": "More operators must join and enlist seats before tasks are accepted.",
    "NotLocked": "The task holds no stake of this operator.",
    "NotMemberOfSet": "The operator has left the set before.",
    "NotTheClient": "Only the client that signed the order may send this.",
    "NotTheExecutor": "Another operator has accepted the task.",
    "NotTheOperator": "Only the operator or its registered signer may send this.",
    "NotThePlayer": "Only the player whose move it is, or its registered signer, may send this.",
    "NotTheSigner": "Only the operator's registered signer may send this.",
    "NotYourSeat": "The seat that is drawn for this index is another operator's, or is younger than the commit.",
    "NothingNoted": "There is no such slash, or it is paid out already.",
    "NothingToSettle": "The answer is settled already, or there is none.",
    "OperatorNotSlashable": "The operator has left the set, and its time to answer is over.",
    "OutlivesStake": "Ask for fewer blocks of execution.",
    "SeatsCovered": "The operator's stake covers its seats: nothing is to be pruned.",
    "SeatsNotCovered": "Deposit and allocate more stake, wait until an allocation is live, or have fewer seats.",
    "SlashingPaused": "EigenLayer has paused slashing: no task is accepted until it goes on. Try again later.",
    "StakeCapExceeded": "Wait for open tasks, or let the operator's owner raise the cap.",
    "StrategyNotWhitelisted": "EigenLayer takes no deposits into this strategy.",
    "TooEarly": "Wait for the block that the error names.",
    "TooLate": "The last block for this is over.",
    "UninitializedAllocationDelay": "Set an allocation delay first.",
    "UnknownChallenge": "The task has no such game whose bond could come back.",
    "UnknownSlot": "Slot 0 is the executor's, slot i + 1 that of answer i, which must be there.",
    "WithdrawalDelayNotElapsed": "EigenLayer's delay is not over: wait for it.",
    "WithdrawalNotQueued": "The withdrawal was completed before.",
    "WrongCheckFee": "Offer at least what the error names to each verifier.",
    "WrongCheckRate": "Choose a rate of checks between the market's floor and 1.",
    "WrongExec": "Ask for 1 to as many blocks of execution as the error names.",
    "WrongHeader": "The node's block is not the chain's: a reorganisation may have come between. Try again.",
    "WrongLeaf": "The leaf is not under the outputs root: prove it from the revealed result.",
    "WrongLeaves": "Demand between 1 leaf and as many as the error names.",
    "WrongOpening": "Root or salt are not those of the commitment.",
    "WrongPosition": "Somebody has moved already: read the game again.",
    "WrongPrices": "The lowest price is at most the highest, which is below the limit that the error names.",
    "WrongSignature": "Let the client sign this very order for this market and chain.",
    "WrongState": "Somebody has moved the task on already, or it is not there yet: look at its state.",
    "WrongTask": "Order and opening must be of the same task.",
    "WrongValueAtRisk": "Name a value at risk below the limit that the error names.",
    "WrongVerifiers": "Ask for 1 to 4 verifiers.",
}

#: What whoever shows the error may say more about, by the error's name.
TOPICS = dict.fromkeys(
    ("AlreadyMemberOfSet", "InvalidOperator", "NotAMember", "UninitializedAllocationDelay"), "joining"
) | {"WithdrawalDelayNotElapsed": "leaving"}

#: Of the game and its referee, where an error has no own: their messages are written by players.
MOVE = "The move does not fit the game: read it again, and play from an account of the same execution."

#: Where no message that an account sends here should meet the error.
UNUSUAL = "Look at how things stand now; if it fails again, report it with this message."

#: Where the contract's reason is unknown: what a transaction met is not there any more, or the contract is another.
NO_REASON = "What it depends on has changed meanwhile, most likely: look at how it stands now, and try again."
UNKNOWN = "Check that the network file is of this deployment, and that this version knows it: update it."
