"""Planted defects of transactions, and of what calls see."""

from __future__ import annotations

from kit.planted_bugs import Bug
from kit.planting import Edit

BUGS = (
    Bug(
        "answer a repeated transaction with its old conflict",
        "the next attempt is judged anew (I4)",
        (Edit("store.requests:Requests.known", 'if found.code == "E_CONFLICT":', "if False:"),),
        "slow=0.3",
        (3, 6, 40),
        1,
        30,
        frozenset(["false-conflict"]),
        (5, 60),
    ),
    Bug(
        "commit a transaction in spite of conflicts",
        "a transaction rests on what is so (X2)",
        (
            Edit(
                "store.transactions:stage_transaction",
                "            if conflicts or own:\n                raise conflict_error([*conflicts, *own])\n",
                "",
            ),
        ),
        "slow=0.1",
        (3, 6, 40),
        5,
        30,
        frozenset(["not-serializable"]),
        (5, 60),
    ),
    Bug(
        "do not look again at what was absent",
        "absence is read too (X2)",
        (
            Edit(
                "store.transactions:ReadStep.again",
                "if now.is_same_as(self.outcome):",
                "if self.outcome.code is not None or now.is_same_as(self.outcome):",
            ),
        ),
        "slow=0.1",
        (3, 6, 40),
        10,
        80,
        frozenset(["not-serializable"]),
        (4, 60),
    ),
    Bug(
        "do not look again at key sets",
        "keys are read too (X2)",
        (
            Edit(
                "store.transactions:ReadStep.again",
                "if now.is_same_as(self.outcome):",
                'if self.projection == "keys" or now.is_same_as(self.outcome):',
            ),
        ),
        "slow=0.1",
        (3, 6, 60),
        0,
        80,
        frozenset(["not-serializable"]),
        (0, 60),
    ),
    Bug(
        "look again only in scopes that were written",
        "all reads count (X2)",
        (
            Edit(
                "store.transactions:ReadStep.again",
                "if now.is_same_as(self.outcome):",
                "if self.path.root not in work._named or now.is_same_as(self.outcome):",
            ),
        ),
        "slow=0.1",
        (3, 6, 40),
        5,
        30,
        frozenset(["not-serializable"]),
        (5, 60),
    ),
    Bug(
        "let a transaction that only reads pass",
        "all reads were true at one moment (X2)",
        (
            Edit(
                "store.transactions:stage_transaction", "if conflicts or own:", "if (conflicts or own) and work.names:"
            ),
        ),
        "slow=0.1",
        (3, 6, 60),
        6,
        80,
        frozenset(["not-serializable"]),
        (0, 60),
    ),
    Bug(
        "commit an attempt that has called retry",
        "whoever retries leaves nothing behind",
        (
            Edit(
                "runtime.transactions_again:Transacting._attempt",
                "        if transaction._is_retrying:\n",
                "        if transaction._is_retrying and not attempt.work.names:\n",
            ),
            Edit(
                "runtime.transactions_again:Transacting._attempt",
                "        attempt = Attempt(begun.moment)\n",
                "        attempt = Attempt(begun.moment)\n        value = None\n",
            ),
        ),
        "none",
        (2, 4, 40),
        0,
        20,
        frozenset(["phantom-write", "wrong-past", "wrong-receipt", "wrong-revision"]),
        (16, 60),
    ),
    Bug(
        "commit a block that was left by an exception",
        "an exception stores nothing",
        (Edit("runtime.transactions:TransactionContext.__aexit__", "if kind is not None:", "if False:"),),
        "none",
        (2, 4, 40),
        1,
        30,
        frozenset(["phantom-write", "wrong-revision"]),
        (7, 60),
    ),
    Bug(
        "show a transaction memory without its own patches",
        "later reads see earlier patches",
        (
            Edit(
                "store.transactions_workspace:Workspace.look",
                "self.moment.view if is_past else self._running",
                "self.moment.view",
            ),
        ),
        "none",
        (2, 3, 20),
        0,
        10,
        frozenset(["assertion"]),
        (28, 60),
    ),
    Bug(
        "keep only the last of several patches",
        "all patches are one net record (X4)",
        (
            Edit(
                "store.transactions_workspace:Workspace.finished",
                "        if name in self._several:",
                "        if False:",
            ),
            Edit(
                "store.transactions_workspace:Workspace.stage",
                "            record = joined_guide(self._changed[name], record)\n",
                "",
            ),
        ),
        "none",
        (2, 4, 40),
        0,
        10,
        frozenset(["lost-write", "not-serializable"]),
        (27, 60),
    ),
    Bug(
        "forget at times to increase a revision",
        "a revision counts the changes",
        (
            Edit(
                "store.algebra.history:ScopeState.follow",
                "self.revision + 1",
                "self.revision + (0 if boundary.position % 5 == 0 else 1)",
            ),
        ),
        "none",
        (2, 3, 20),
        0,
        5,
        frozenset(["unclean-close", "unexpected-error", "unreadable"]),
        (54, 60),
    ),
    Bug(
        "show the newest private memory of the directory",
        "private memory is private",
        (
            Edit(
                "store.memory_store:MemoryStore.trio",
                "fence.kept if fence else self.image(session)",
                "max((item for name, item in self.images.items() "
                "if name.startswith(f\"{address.scope('cwd')}/\")), "
                "key=lambda item: item.last_seq, default=self.image(session))",
            ),
        ),
        "none",
        (1, 4, 40),
        0,
        15,
        frozenset(["leaked", "phantom-write", "stale-read", "torn-write"]),
        (0, 60),
    ),
    Bug(
        "count the past from the wrong boundary",
        "an offset counts boundaries back from the head",
        (
            Edit(
                "store.algebra.past:Past._boundaries",
                "return boundaries[: len(boundaries) - offset]",
                "return boundaries[: len(boundaries) - offset + (1 if offset else 0)]",
            ),
        ),
        "none",
        (2, 4, 40),
        0,
        30,
        frozenset(["wrong-past"]),
        (9, 60),
    ),
    Bug(
        "stage the second call of a batch on the state before the first",
        "one call follows another (D1)",
        (
            Edit(
                "store.draft:Draft.readable",
                "self.images.get(scope) or self.store.images.get(scope)",
                "self.store.images.get(scope)",
            ),
        ),
        "none",
        (1, 4, 60),
        5,
        80,
        frozenset(["wrong-revision"]),
        (0, 60),
    ),
    Bug(
        "never give a place in the queue of transactions back",
        "a turn ends with its attempt (Q1)",
        (Edit("runtime.transactions_queue:Turn.end", "        line.release()", "        pass"),),
        "slow=0.3",
        (3, 6, 40),
        5,
        60,
        frozenset(["assertion", "stuck"]),
        (4, 60),
    ),
)
