"""Planted defects of cancellation, closing and watching."""

from __future__ import annotations

from kit.planted_bugs import Bug
from kit.planting import Edit

BUGS = (
    Bug(
        "swallow a Cancelled and answer with nothing",
        "a cancelled caller is cancelled",
        (
            Edit(
                "actors.mailbox:Mailbox.ask",
                "    return await envelope.wait()\n",
                "    try:\n        return await envelope.wait()\n    except trio.Cancelled:\n        return None\n",
            ),
        ),
        "cancel=0.3",
        (2, 4, 40),
        0,
        10,
        frozenset(["lost-write", "unexpected-error", "wrong-order", "wrong-revision"]),
        (6, 60),
    ),
    Bug(
        "swallow a Cancelled and say that nothing was stored",
        "past the point of no return the work is done",
        (
            Edit(
                "actors.mailbox:Mailbox.ask",
                "    return await envelope.wait()\n",
                "    try:\n"
                "        return await envelope.wait()\n"
                "    except trio.Cancelled:\n"
                "        raise StoreError('E_ABORTED', 'the caller was cancelled; nothing was stored') from None\n",
            ),
        ),
        "cancel=0.3,slow=0.2",
        (2, 4, 40),
        0,
        10,
        frozenset(["lost-write", "not-serializable", "phantom-write", "wrong-past", "wrong-revision"]),
        (3, 60),
    ),
    Bug(
        "leave the actor of a cancelled opening running",
        "a cancelled opening leaves nothing behind",
        (Edit("actors.supervisor:Supervisor.start", "await self._kill(child)", "                pass"),),
        "cancel=0.5,slow=0.2",
        (2, 4, 40),
        1,
        5,
        frozenset(["assertion"]),
        (8, 60),
    ),
    Bug(
        "drop the shield around closing",
        "a program that is asked to end leaves the store",
        (
            Edit(
                "runtime.opening:open_runtime_in",
                "with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_DEADLINE_S):",
                "if True:",
            ),
            Edit(
                "runtime.assembly:Runtime.aclose",
                "with trio.CancelScope(shield=True, deadline=started + deadline):",
                "with trio.CancelScope(deadline=started + deadline):",
            ),
        ),
        "stop=0.3",
        (2, 4, 40),
        0,
        5,
        frozenset(["unclean-close"]),
        (1, 60),
    ),
    Bug(
        "wake nobody",
        "whoever watches is told",
        (
            Edit(
                "actors.watching:WatchHub.change",
                "for scope in sorted(scopes) if self._by_scope else ():",
                "for scope in ():",
            ),
        ),
        "none",
        (3, 6, 40),
        1,
        60,
        frozenset(["assertion"]),
        (1, 60),
    ),
    Bug(
        "forget to follow other processes while somebody watches",
        "whoever watches is told of other processes",
        (Edit("actors.watch_tick:WatchTick._look", "            await self._follower.refresh()", "            pass"),),
        "none",
        (3, 6, 40),
        16,
        80,
        frozenset(["assertion"]),
        (1, 60),
    ),
    Bug(
        "drop a directory's memory with the first of its sessions",
        "an open session can be used",
        (
            Edit(
                "store.memory_store:MemoryStore.release",
                'if not any(other.scope("cwd") == cwd for other in self.accepted.values()):',
                "if True:",
            ),
        ),
        "none",
        (1, 4, 60),
        1,
        40,
        frozenset(["unexpected-error"]),
        (3, 60),
    ),
    Bug(
        "keep the turn when all who wanted it have left",
        "the turn is held only while a round is under way (M5)",
        (Edit("actors.turn:Turn.acquire", "    self._let_go()\n    return False", "    return False"),),
        "freeze=0.2,cancel=0.5",
        (3, 6, 40),
        0,
        15,
        frozenset(["actor-failed", "stuck"]),
        (1, 60),
    ),
)
