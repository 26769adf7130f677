"""Who waits for a task, and who is woken."""

import asyncio

from eigentensor_serve.backend import Changes


def test_a_change_wakes_all_who_wait_for_its_task_and_nobody_else() -> None:
    changes = Changes()

    async def run() -> None:
        with changes.watched("a") as first, changes.watched("a") as second, changes.watched("b") as other:
            with changes.watched("a") as gone:
                pass
            await asyncio.to_thread(changes.notify, "a")
            await asyncio.wait_for(asyncio.gather(first.wait(), second.wait()), 60)
            assert not other.is_set() and not gone.is_set()

    asyncio.run(run())
