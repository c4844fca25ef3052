"""Planted defects of following, of request ids and of reading."""

from __future__ import annotations

from kit.planted_bugs import Bug
from kit.planting import Edit

BUGS = (
    Bug(
        "answer what appends nothing from an old root, without following",
        "a fresh read has what others were told",
        (
            Edit(
                "actors.store_actor:StoreActor._follow_stage_append",
                "elif is_alone and journal.rows_since(self.state.head, 1):",
                "elif False:",
            ),
        ),
        "slow=0.2",
        (3, 6, 40),
        1,
        80,
        frozenset(["stale-read"]),
        (3, 60),
    ),
    Bug(
        "replay the rows of others twice",
        "every row is applied once (S1)",
        (
            Edit(
                "store.memory_store:MemoryStore.follow",
                "self._advance(scope, self.images[scope], [row])",
                "self._advance(scope, self.images[scope], [row, row])",
            ),
            Edit(
                "store.image:ScopeImage.apply",
                "if content.boundary is None or part.revision != state.revision + 1:",
                "if content.boundary is None:",
            ),
        ),
        "none",
        (2, 3, 20),
        1,
        10,
        frozenset(["unclean-close", "unexpected-error", "unreadable", "wrong-revision"]),
        (41, 60),
    ),
    Bug(
        "skip every seventh row when following",
        "every row is applied (S1)",
        (
            Edit(
                "store.memory_store:MemoryStore.follow",
                "            if scope in self.images and self._is_owner(scope, row):",
                "            if scope in self.images and self._is_owner(scope, row) and row.seq % 7:",
            ),
            Edit(
                "store.image:ScopeImage.apply",
                "if content.boundary is None or part.revision != state.revision + 1:",
                "if content.boundary is None:",
            ),
        ),
        "none",
        (2, 3, 20),
        5,
        20,
        frozenset(
            [
                "lost-write",
                "not-serializable",
                "stale-read",
                "torn-write",
                "unexpected-error",
                "unreadable",
                "wrong-past",
                "wrong-receipt",
                "wrong-revision",
            ]
        ),
        (17, 60),
    ),
    Bug(
        "follow only the first scope of a row",
        "a call is all or nothing (M2)",
        (
            Edit(
                "store.memory_store:MemoryStore.follow",
                "                self._advance(scope, self.images[scope], [row])\n",
                "                self._advance(scope, self.images[scope], [row])\n                break\n",
            ),
        ),
        "none",
        (2, 4, 40),
        0,
        10,
        frozenset(
            [
                "lost-write",
                "not-serializable",
                "torn-write",
                "unclean-close",
                "unexpected-error",
                "unreadable",
                "wrong-revision",
            ]
        ),
        (11, 60),
    ),
    Bug(
        "overlook that rows were pruned in between",
        "a gap means to read anew (J1)",
        (
            Edit(
                "store.memory_store:MemoryStore.is_followed_by",
                "return not newer or rows[-1].seq - self.head == newer",
                "return True",
            ),
        ),
        "slow=0.1",
        (3, 6, 40),
        0,
        60,
        frozenset(["stale-read", "torn-write", "unexpected-error", "unreadable", "wrong-revision"]),
        (3, 60),
    ),
    Bug(
        "leave out the rows on top when a scope is read from files",
        "an image is its files and all rows after them (S1)",
        (Edit("store.memory_store:MemoryStore.install", "            on_top[scope].append(row)", "            pass"),),
        "kill=0.1",
        (2, 3, 20),
        0,
        10,
        frozenset(
            [
                "lost-write",
                "not-serializable",
                "stale-read",
                "torn-write",
                "unclean-close",
                "unexpected-error",
                "wrong-past",
                "wrong-receipt",
                "wrong-revision",
            ]
        ),
        (35, 60),
    ),
    Bug(
        "store a repeated request once more",
        "a request id is accepted once (I1)",
        (
            Edit(
                "store.requests:Requests.known",
                "found = None if request_id is None else self.find(request_id)",
                "found = None",
            ),
        ),
        "none",
        (2, 3, 20),
        1,
        30,
        frozenset(["double-write"]),
        (13, 60),
    ),
    Bug(
        "remember requests in the process only",
        "a request id is accepted once, across crashes (I2)",
        (Edit("store.requests:recalled", "found = journal.outcome_of(request_id)", "found = None"),),
        "kill=0.1",
        (2, 3, 20),
        1,
        20,
        frozenset(["double-write", "outcome-lies", "torn-write", "wrong-revision"]),
        (17, 60),
    ),
)
