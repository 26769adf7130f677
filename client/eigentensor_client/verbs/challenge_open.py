"""`eigentensor challenge open`: look, ask, challenge, play."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from eigentensor.errors import ChallengeLost, NotChallengeable, WrongResult
from eigentensor_client.screen import Screen, facts
from eigentensor_client.verbs import options
from eigentensor_client.verbs.meeting import paying

if TYPE_CHECKING:
    from eigentensor_client.challenging import Challenger, Stakes
    from eigentensor_client.games import Game, Here
    from eigentensor_client.looking import Look
    from eigentensor_client.schemas import results as schemas

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Challenge a wrong result without asking.")]
Play = Annotated[bool, typer.Option("--play/--no-play", help="Play the game to its end.")]
Again = Annotated[bool, typer.Option("--again", help="Post another bond after a game that you lost.")]
MaxMemory = Annotated[int, typer.Option("--max-memory", help="Bytes that the program's tensors may take.")]
Unsafe = Annotated[bool, typer.Option("--unsafe-no-sandbox", help="Run strangers' programs unconfined. Do not.")]


def open_challenge(
    task: options.TaskName,
    yes: Yes = False,
    play: Play = True,
    again: Again = False,
    max_memory: MaxMemory = 8 << 30,
    unsafe_no_sandbox: Unsafe = False,
    network: options.NetworkName = None,
    json: options.Json = False,
) -> None:
    """Execute a task again; if its result is wrong, challenge it and play until the referee has decided.

    Started again it goes on with the open game. With --json a line for everything that happens.
    """
    from eigentensor_client.challenging import Challenger

    with paying(network, json=json) as (screen, client, _):
        challenger = Challenger(client, client.task(task), memory=max_memory, unsafe=unsafe_no_sandbox)
        own = challenger.own_games()
        game = next((number for number, is_open in own.items() if is_open), None)
        if game is None:
            challenger.check()
            if own and not again:
                raise NotChallengeable(
                    f"you have lost game {max(own)} about task {challenger.task.uuid}",
                    fix="That decides nothing about the result; --again posts another bond.",
                )
            game = _challenge(screen, challenger, yes=yes)
        else:
            screen.say(f"game {game} about it is yours and open: it goes on")
        if game is not None and play:
            _play(screen, challenger, game)


def _challenge(screen: Screen, challenger: "Challenger", *, yes: bool) -> int | None:
    """Looks, and opens a game if the result is wrong and the user wants it. None: there is nothing to challenge."""
    uuid, client = challenger.task.uuid, challenger.client
    with screen.work() as bar:
        look = challenger.look(bar)
    if look.agrees:
        words = f"task {uuid}: the results agree, there is nothing to challenge"
        agreement = _event("agrees", challenger, look)
        screen.result(agreement["schema"], agreement, words)
        return None
    stakes = challenger.stakes()
    difference = _differs(challenger, look, stakes)
    screen.result(
        difference["schema"], difference, f"task {uuid}: THE RESULT IS WRONG, as this machine computes it, twice"
    )
    screen.say(facts([*_looked(challenger, look), *_priced(challenger, stakes)]))
    if not (yes or _asked()):
        raise WrongResult(
            f"the result of task {uuid} is wrong, and was not challenged",
            fix=f"`eigentensor challenge open {uuid} --yes` challenges it, until {_until(challenger)}.",
        )
    try:
        with screen.work() as bar:
            bar("posting the bond")
            game = challenger.open(stakes)
    except KeyboardInterrupt:
        screen.say("the bond may be on its way: the same command finds out and goes on, and posts no second one")
        raise
    opened: schemas.Challenging = {
        "schema": "eigentensor.challenging/1",
        "event": "opened",
        "task": uuid,
        "game": game,
        "bond": str(stakes.bond),
    }
    screen.result(opened["schema"], opened)
    screen.say(f"challenged: game {game}, with a bond of {client.amount(stakes.bond)}")
    return game


def _play(screen: Screen, challenger: "Challenger", game: int) -> None:
    from eigentensor.chain.game_words import follows
    from eigentensor_client.games import Here, following

    client, uuid = challenger.client, challenger.task.uuid
    here = Here(client.address, client.amount, client.pace)
    last: list[Game] = []
    try:
        with following(screen, here) as shown:

            def seen(state: "Game", doing: str) -> None:
                last[:] = [state]
                shown.one(state, doing)

            end = challenger.play(game, seen)
    except KeyboardInterrupt:
        for words in _interrupted(game, uuid, last, here):
            screen.say(words)
        raise
    if end["lost_by"] == "challenger" and end["state"] == "ended":
        raise ChallengeLost(
            f"game {game} about task {uuid} is lost, and with it the bond of {client.amount(int(end['bond']))}: "
            f"{end['moves'][-1]['what']}",
            fix="It decides nothing about the result. `eigentensor doctor` tells whether this machine can be trusted.",
        )
    screen.say(follows(end))
    screen.say("`eigentensor challenge claim` brings what is due to you, now and later")


def _interrupted(game: int, uuid: str, last: "list[Game]", here: "Here") -> list[str]:
    """How to go on, and how long there is."""
    words = [f"game {game} goes on without you: `eigentensor challenge open {uuid}` takes it up again"]
    if not last or last[0]["state"] != "open":
        return words
    state = last[0]
    until = here.pace.block(state["until"], state["block"])
    if state["turn"] == "challenger":
        return [*words, f"your clock runs: without a move you lose the bond after {until}"]
    left = here.pace.blocks(state["clocks"]["challenger"])
    return [*words, f"the executor moves until {until}; once it is your move, you have {left}"]


def _asked() -> bool:
    """Whether the user wants it; without a terminal nobody is asked, and the answer is no."""
    return sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm("Challenge it?", err=True)


def _event(name: Literal["agrees", "differs"], challenger: "Challenger", look: "Look") -> "schemas.Challenging":
    return {
        "schema": "eigentensor.challenging/1",
        "event": name,
        "task": challenger.task.uuid,
        "claimed": challenger.claimed.hex(),
        "computed": look.outputs_root.hex(),
        "difference": look.difference.to_json() if look.difference else None,
    }


def _differs(challenger: "Challenger", look: "Look", stakes: "Stakes") -> "schemas.Challenging":
    """Amounts in wei as decimal strings."""
    return {
        **_event("differs", challenger, look),
        "bond": str(stakes.bond),
        "reward": str(stakes.reward),
        "share": str(stakes.share),
        "gas_price": str(stakes.gas_price),
        "until": stakes.until,
    }


def _looked(challenger: "Challenger", look: "Look") -> list[list[str]]:
    rows = [["claimed", challenger.claimed.hex()], ["computed", look.outputs_root.hex()]]
    if look.difference is None:
        return [*rows, ["difference", "unknown before the game: the executor's bytes are at no gateway"]]
    many = f"; {look.difference.elements:,} elements differ" if look.difference.elements > 1 else ""
    return [*rows, ["difference", look.difference.words + many]]


def _priced(challenger: "Challenger", stakes: "Stakes") -> list[list[str]]:
    from eigentensor_client.challenging import LEAST_GAS, MOST_GAS

    say = challenger.client.amount
    least, most = (f"{gas * stakes.gas_price / 10**18:.2g}" for gas in (LEAST_GAS, MOST_GAS))
    return [
        ["bond", f"{say(stakes.bond)}, held until the game is over; lost if the referee finds the executor right"],
        ["gas", f"{LEAST_GAS:,} to {MOST_GAS:,}: {least} to {most} of the chain's coin at its present price"],
        ["to win", f"{say(stakes.reward)} and the bond at the conviction; later {say(stakes.share)} of the slashed "
                   "stake, shared with verifiers that differed too"],
        ["until", _until(challenger)],
    ]  # fmt: skip


def _until(challenger: "Challenger") -> str:
    """The last block for a challenge."""
    return challenger.client.pace.block(challenger.until, challenger.task.block)
