"""Gas as contracts/README.md states it: `test/gas` is measured, held to `contracts/snapshots`, and printed as tables.

With --known nothing is measured: the tables of the snapshots as they are.
"""

import json
import subprocess
import sys
from pathlib import Path

CONTRACTS = Path(__file__).resolve().parents[3] / "contracts"
MANY = 32

#: Placeholders are FILE[KEY] of contracts/snapshots.
MESSAGES = """\
| message | alone | in a batch of 32, per task |
| --- | --- | --- |
| `post` (client) · with a signature | {task[post]} · {messages[post with signature]} | {each[postMany]} |
| `accept`, with the stake lock | {task[accept]} | {each[acceptMany]} |
| `commit` | {task[commit]} | {each[commitMany]} |
| `seed` | {task[seed]} | {each[seed]} |
| `reveal` | {task[reveal]} | {each[revealMany]} |
| `close` | {task[close]} | {each[closeMany]} |
| **life of a task** (goals 400,000; 110,000) | **{task[life]}** | **{batch[life, per task]}**, of it the executor's \
messages **{batch[operator, per task]}** |"""

OTHERS = """\
A check on top: `answer` {check[answer]}, `reveal` of an equal root {check[reveal of an equal root]}, `settle` \
{check[settle]}. A check that ends before checkBy, of 16 seats of three operators: the executor's `reveal` \
{check[reveal before checkBy]}; an `expose` after an answer {check[expose after an answer]}. A conviction: \
`challenge` {conviction[challenge]}, `reveal` of a different root \
{conviction[reveal of a different root]}, the whole last move of the game \
{conviction[last move of the deciding game]}, `settle` {conviction[settle]}, `refund` {conviction[refund]}, `slash` \
{conviction[slash]} (440,000 of it EigenLayer's), `Bounty.pay` {conviction[pay the bounty]}; `close` of a silent \
executor's task {conviction[close of a silent executor's task]}.
`cancel` {messages[cancel]} · `expire` {messages[expire]} · `close` of a failed task \
{messages[close of a failed task]} · `expose` {messages[expose]} · `demand` and `show` of one leaf \
{messages[demand of one leaf]}, {messages[show of one leaf]} · `deposit` {messages[deposit]} · `withdraw` \
{messages[withdraw]} · `burn` {messages[burn]} · `setSigner` {messages[setSigner]} · `enlist` 9 seats \
{messages[enlist 9 seats]} · `leave` {messages[leave with 10 seats]}."""

DISPUTE = """\
| | final expression; 8,192 elements (32 leaves) | the same, the executor's tensor being known | step of a product of \
2^20 elements, K = 1,024 | among 2^14 calls, K = 4,096 |
| --- | --- | --- | --- | --- |
| `open` (part of `challenge`) | {final[open]} | {once[open]} | {step[open]} | {deep[open]} |
| E `publish` | {final[publish, 31]} (31 nodes: all roots) | {once[publish, 31]} | {step[publish, 31]} | \
{deep[publish, 17]} (17 nodes) |
| C `pickNode`, E `descend` in the trace | – | – | – | 2 × {deep[pickNode of 32, of the trace]}, 2 × \
{deep[descend to 32]} (to 32) |
| C `pickCall` | {final[pickCall]} | – | {step[pickCall]} | {deep[pickCall]} |
| E `descend` | {final[descend to 32]} (to 32) | – | 2 × {step[descend to 64]} (to 64) | 2 × {deep[descend to 64]} |
| C `pickNode` | {final[pickNode of 32]} | – | 2 × {step[pickNode of 64]} | 2 × {deep[pickNode of 64]} |
| E `showLeaf` | {final[showLeaf]} | – | {step[showLeaf, a reduction]} (with a reduction's results) | \
{deep[showLeaf, a reduction]} |
| C `pickReduction` | – | – | {step[pickReduction]} | {deep[pickReduction]} |
| E `claimBorders` | – | – | {step[claimBorders, 63]} (63), {step[claimBorders, 15]} (15) | 2 × \
{deep[claimBorders, 63]} (63) |
| C `pickSpan` | – | – | {step[pickSpan]} | {deep[pickSpan]} |
| C `judgeFinal`, `judgeCall`, `judgeSpan`: two loads | {final[judgeFinal, two loads]} | {once[judgeCall, two loads]} \
| {step[judgeSpan, two loads]} | {deep[judgeSpan, two loads]} |
| **all** | **{final[all]}** in {final[transactions]} transactions | **{once[all]}** in {once[transactions]} | \
**{step[all]}** in {step[transactions]} | **{deep[all]}** in {deep[transactions]} |"""

#: Before: snapshots, or this page, as they were before a commit.
LOWERED = """\
| what was done | of | before | now |
| --- | --- | --- | --- |
| 32 messages in one transaction | the life of a task | {task[life]} | {batch[life, per task]} |
| | `accept`, with the stake lock | {task[accept]} | {each[acceptMany]} |
| | `close` | {task[close]} | {each[closeMany]} |
| one seed for all tasks of a block | `seed`, per task | {task[seed]} | {each[seed]} |
| a leaf that the challenger knows is judged at once (`bc31721`) | a dispute about a final expression | 738,325 in 7 \
transactions | {once[all]} in {once[transactions]} |
| an instruction is decoded and its types compared in one word (`732305c`) | an `ADD` of int32 | 3,600 | \
{instruction[ADD int32]} |
| | a `DIV` of float16 | 5,100 | {instruction[DIV float16]} |
| a record is read once for each verdict (`732305c`) | verdict of a final expression, two loads | 177,736 | \
{final[judgeFinal, two loads]} |
| padding is hashed only where there is some (`f2bad2b`) | `descend` to 64 | 139,102 | {step[descend to 64]} |
| a task's progress is one word, its seats are looked up | the life of a task | 505,365 | {task[life]} |
| | in a batch of 32 | 216,877 | {batch[life, per task]} |
| | `commit` | 84,132 | {task[commit]} |
| games are counted and convictions noted in words that are there | `challenge` | 146,305 | {conviction[challenge]} |
| | the whole last move of a game | 135,787 | {conviction[last move of the deciding game]} |
| a header is walked once | `seed` | 73,143 | {task[seed]} |
| words and nodes are hashed in one loop each | `showLeaf` | 100,049 | {final[showLeaf]} |
| a position is ten words, not 26 | a dispute about a step, 13 transactions | 1,255,212 | {step[all]} |
| | the same among 2^14 calls, 17 | 1,629,414 | {deep[all]} |
| | `pickSpan` | 53,289 | {step[pickSpan]} |"""


CALLS = """\
| of a batch, everybody's messages | 1,000 calls, n = 1 | 10,000 calls, n = 4, α = 5 % | the same, α = 10 % | 10,240 \
calls of 256 channels, n = 4 |
| --- | --- | --- | --- | --- |
| `commit` with `begin` of the next | {one[commit, begin of the next]} | {four[commit, begin of the next]} | \
{ten[commit, begin of the next]} | {many[commit, begin of the next]} |
| `seed`, not shared | {one[seed]} | {four[seed]} | {ten[seed]} | {many[seed]} |
| `answer`, the last of n | {one[answer]} | {four[answer]} | {ten[answer]} | {many[answer]} |
| `revealRoots` | {one[revealRoots]} | {four[revealRoots]} | {ten[revealRoots]} | {many[revealRoots]} |
| `reveal`, the last of n | {one[reveal]} | {four[reveal]} | {ten[reveal]} | {many[reveal]} |
| `close` with `settle` of all | {one[close, settle of all]} | {four[close, settle of all]} | \
{ten[close, settle of all]} | {many[close, settle of all]} |
| **all** | {one[all]} | {four[all]} | {ten[all]} | {many[all]} |
| **per call** (goals 800; 160; 160; 1,000) | **{one[per call]}** | **{four[per call]}** | **{ten[per call]}** | \
**{many[per call]}** |"""

SELDOM = """\
A line costs {calls[a line]}, a tail of eight on top {calls[a tail of 8, on top of its line]}, `justify` of a part of \
64 calls {calls[justify of 64 calls]}. `open` {calls[open]} · `fund` {calls[fund]} · `leave` {calls[leave]} · `end` \
{calls[end]} · `challenge` {calls[challenge]} · `demand` {calls[demand]} · `show` {calls[show]} · `contradict` \
{calls[contradict]} · `slash` {calls[slash]} · `refund` of a line {calls[refund of a line]}."""


class Figures(dict[str, str]):
    """A file of snapshots: its figures as they are printed, each divided by `parts`."""

    def __init__(self, name: str, parts: int = 1) -> None:
        values = json.loads((CONTRACTS / f"snapshots/{name}.json").read_text())
        super().__init__({key: f"{round(int(value) / parts):,}" for key, value in values.items()})


def tables() -> list[str]:
    """What the README states, from the snapshots."""
    files = {name: Figures(name) for name in ("task", "messages", "batch", "check", "conviction", "instruction")}
    games = {name: Figures(f"dispute-{name}") for name in ("final", "once", "step", "deep")}
    batches = {name: Figures(f"calls-{name}") for name in ("one", "four", "ten", "many")}
    figures = files | games | batches | {"each": Figures("batch", MANY), "calls": Figures("calls")}
    return [text.format_map(figures) for text in (MESSAGES, OTHERS, LOWERED, DISPUTE, CALLS, SELDOM)]


def main() -> None:
    if "--known" not in sys.argv:
        command = [str(CONTRACTS / "node_modules/.bin/forge"), "test", "--match-path", "test/gas/*"]
        done = subprocess.run(command, cwd=CONTRACTS, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
    sys.stdout.write("\n\n".join(tables()) + "\n")


if __name__ == "__main__":
    main()
