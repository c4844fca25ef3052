"""What a store must hold after a crash: every state it has had, and from which one on it may be found.

Values are worked out with the naive model, not with the code under test. A ledger is told what begins and what was
acknowledged; the store that is found later must be exactly one of the states between what was certain and what had
begun::

    moments   0 ... certain ... acknowledged   [begun]
                       +-- power cut --------------+     level "process" may lose its end, never a piece of the middle
                                    +-- kill -9 ---+

After a crash nobody knows in which of them the store is until somebody has looked: ``kept`` then stays behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from kit.naive_model import naive_merge, naive_prune
from kit.simulated_stores import SimulatedStore
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Draft, Durability, Receipt, SessionAddress, StoreError, check_patch_arguments

Json = dict[str, Any]
# Value and revision of every scope, by its folder.
Moment = Mapping[str, tuple[Json, int]]

MAIN = SessionAddress("/project", "main", "main")


@attrs.define(eq=False)
class Ledger:
    """The states of one store, oldest first, and the sessions that somebody has opened.

    ``ghost`` is a state that a dead process had begun and that another one has passed over since: it may rise again in
    a crash that takes what was built beside it.
    """

    moments: list[Moment] = attrs.field(factory=lambda: [{}])
    acknowledged: int = 0
    kept: int = 0
    certain: int = 0
    addresses: list[SessionAddress] = attrs.field(factory=list)
    # Calls with a request id: the moment that each made, or None once it is known to have come to nothing.
    requests: dict[str, int | None] = attrs.field(factory=dict)
    ghost: Moment | None = None
    is_ghost_covered: bool = False
    # Whether somebody may have to remove our lock towards Pi by hand.
    may_need_unlock: bool = False

    def copy(self) -> Self:
        """The ledger as it is now; moments are shared, they never change."""
        lists = {"moments": [*self.moments], "addresses": [*self.addresses], "requests": dict(self.requests)}
        return attrs.evolve(self, **lists)

    @property
    def now(self) -> Moment:
        """The newest state, be it acknowledged or only begun."""
        return self.moments[-1]

    @property
    def is_open_ended(self) -> bool:
        """Whether a call has begun of which nobody knows what became."""
        return len(self.moments) > self.acknowledged + 1

    def begin(self, address: SessionAddress, patches: Mapping[str, Json], request_id: str | None = None) -> None:
        """A call begins that merges these patches, by scope name."""
        assert not self.is_open_ended, "what had begun must be settled first"
        after = dict(self.now)
        for name, patch in patches.items():
            scope = address.scope(name)  # type: ignore[arg-type]
            value, revision = after.get(scope, ({}, 0))
            merged = naive_prune(naive_merge(value, patch))
            if merged != value:
                after[scope] = (merged, revision + 1)
        self.moments.append(after)
        if request_id is not None:
            self.requests[request_id] = len(self.moments) - 1

    def acknowledge(self, level: Durability) -> None:
        """What had begun was answered."""
        self.acknowledged = self.kept = len(self.moments) - 1
        self.is_ghost_covered = True
        if level == "power":
            self.make_certain()

    def make_certain(self) -> None:
        """Everything acknowledged was synced."""
        self.certain, self.ghost = self.acknowledged, None

    def refuse(self) -> None:
        """What had begun was refused: nothing of it may ever be seen."""
        del self.moments[self.acknowledged + 1 :]
        self._forget_beyond(self.acknowledged)

    def pass_over(self) -> None:
        """What a dead process had begun is not there. As long as nothing better is synced it may come back."""
        self.ghost, self.is_ghost_covered = self.now, False
        self.refuse()

    def crash(self, *, is_cut: bool) -> None:
        """Everything stops: by a power cut, or only the processes. Which state will be found is open now."""
        self.kept = self.certain if is_cut else self.kept
        self.certain = min(self.certain, self.kept)
        if self.is_ghost_covered and not is_cut:
            self.ghost = None

    def settle(self, store: SimulatedStore) -> None:
        """Find out in which of the possible states the store is: from now on there is no other. Assert there is one."""
        possible = [*self.moments[self.kept :], *([] if self.ghost is None else [self.ghost])]
        found = {scope: state_of(store, scope) for moment in possible for scope in moment}
        place = max((n for n, moment in enumerate(possible) if not _differing(moment, found)), default=None)
        if place is None:
            nearest = min(possible, key=lambda moment: len(_differing(moment, found)))
            text = f"none of {len(possible)} states; the nearest differs by scope, (expected, found): "
            raise AssertionError(text + str(_differing(nearest, found)))
        self._forget_beyond(place + self.kept)
        self.moments, self.acknowledged, self.kept, self.certain = [possible[place]], 0, 0, 0
        self.requests = {name: None if made is None else 0 for name, made in self.requests.items()}
        self.ghost = None

    def _forget_beyond(self, place: int) -> None:
        self.requests = {name: None if made is None or made > place else made for name, made in self.requests.items()}

    def replace(self, scope: str, value: Json, revision: int) -> None:
        """Somebody who does not know the journal wrote a scope's files: their bytes win, whatever else is lost (J6)."""
        self.moments = [{**moment, scope: (value, revision)} for moment in self.moments]

    def is_at(self, store: SimulatedStore) -> bool:
        """Whether the store holds the newest state, also if that was only begun."""
        return not _differing(self.now, {scope: state_of(store, scope) for scope in self.now})


def _differing(moment: Moment, found: Moment) -> dict[str, tuple[str, str]]:
    """The scopes that are not as they were at a moment, in short."""
    pairs = {scope: (moment.get(scope, ({}, 0)), state) for scope, state in found.items()}
    return {scope: (short(expected), short(state)) for scope, (expected, state) in pairs.items() if expected != state}


def short(value: object) -> str:
    """A value for an error text."""
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}… ({len(text)} characters)"


def state_of(store: SimulatedStore, scope: str) -> tuple[Json, int]:
    """Value and revision of a scope as the store has them in memory."""
    state = store.memory.image(scope).state
    return ({}, 0) if state is None else (state.value, state.revision)


@attrs.define(eq=False)
class Author:
    """A process that changes a store and says so in the ledger."""

    machine: SimulatedMachine
    store: SimulatedStore
    ledger: Ledger

    @classmethod
    def join(
        cls,
        machine: SimulatedMachine,
        ledger: Ledger,
        name: str,
        level: Durability = "power",
        address: SessionAddress = MAIN,
    ) -> Self:
        """Open the store in a new process. What it builds on is synced first (J4)."""
        store = SimulatedStore.open(
            machine, name, level=level, session_id=address.session_id, cwd=address.cwd, history_limit=2
        )
        self = cls(machine, store, ledger)
        if store.default not in ledger.addresses:
            ledger.addresses.append(store.default)
        return self

    def catch_up(self) -> None:
        """Follow the others. If one has died in a call: whether that counts can be seen now."""
        self.store.follow()
        for scope, address in [*self.store.memory.accepted.items()]:
            if scope in self.store.memory.fences:
                self.store.session(address.session_id, address.cwd)
        if self.ledger.is_open_ended:
            for address in self.ledger.addresses:
                self.store.session(address.session_id, address.cwd)
            if self.ledger.is_at(self.store):
                self.ledger.acknowledge("process")
            else:
                self.ledger.pass_over()

    def open_session(self, session_id: str, cwd: str = "/project") -> SessionAddress:
        address = self.store.session(session_id, cwd)
        if address not in self.ledger.addresses:
            self.ledger.addresses.append(address)
        return address

    def patch(self, address: SessionAddress | None = None, request_id: str | None = None, **patches: Json) -> None:
        """One transition over the scopes that are named."""
        given = {name.rstrip("_"): patch for name, patch in patches.items()}
        address = address or self.store.default
        self.catch_up()
        self.ledger.begin(address, given, request_id)
        self._answered(lambda: self.store.patch(address, request_id=request_id, **patches))

    def batch(self, *calls: tuple[SessionAddress, dict[str, Json]]) -> None:
        """Several calls in one append: all of them or none (J2)."""
        self.catch_up()
        moments = len(self.ledger.moments)
        for address, patches in calls:
            self.ledger.begin(address, patches)
            self.ledger.acknowledged += 1
        del self.ledger.moments[moments:-1]
        self.ledger.acknowledged = moments - 1

        def stage(draft: Draft) -> list[Receipt]:
            return [draft.stage_patch(address, check_patch_arguments(patches)) for address, patches in calls]

        self._answered(lambda: self.store.commit(stage))

    def respond(self, text: str, address: SessionAddress | None = None) -> None:
        """Accept an answer."""
        address = address or self.store.default
        self.catch_up()
        self.ledger.begin(address, {"session": {"response": text}})
        self._answered(lambda: self.store.respond(text, address))

    def _answered(self, call: Any) -> None:
        try:
            call()
        except StoreError as error:
            if error.code == "E_DISK":
                self.ledger.refuse()
            raise
        self.ledger.acknowledge(self.store.level)

    def checkpoint(self) -> None:
        """Write everything into the files; then all of it is certain."""
        report = self.store.checkpoint()
        assert not report.blocked, report
        self.ledger.make_certain()

    def close(self) -> None:
        """Leave. The last one writes the files."""
        report = self.store.close()
        assert not report.cause, report
        if report.was_last:
            self.ledger.make_certain()
