"""Histories of a perfect store: correct by construction, with everything that makes a correct history hard to judge.

A store of the kind that nobody could afford: each row has a copy of the whole state. Values and reads come from the
memory algebra, which the checker shares nothing with. Clients lag behind, are killed, cancelled and ask again; calls
overlap; transactions conflict; strangers write; the power fails and takes the newest rows away.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import attrs

from strataflow.runtime.simulation.history import (
    Call,
    FinalScope,
    History,
    Life,
    PowerCut,
    Read,
    Superseded,
)
from strataflow.store import CallError, ReadError, SessionAddress
from strataflow.store.algebra import (
    Boundary,
    ScopeState,
    StagedCall,
    View,
    empty_scope,
    read,
    same,
    stage_patch,
    stage_response,
)

Json = dict[str, Any]
NAMES = ("global", "cwd", "session")
ABSENT = empty_scope(Boundary("absent", None, 0))
SESSIONS = (("/a", "s1"), ("/a", "s2"), ("/b", "s1"), ("/a", "s3"))
PATHS = (
    *(f"{root}.working" for root in ("global", "cwd", "session", "effective")),
    *(f"{root}.working.{key}" for root in ("global", "cwd", "effective") for key in "kml"),
    "session.working.k.x",
    "cwd.working.list[0]",
    "global.working.list[0:1]",
    "session.lazy",
    "lazy.k",
    "session.response",
    "effective",
    "global",
)


@attrs.define
class State:
    """The whole store after one row. ``call`` made it; None for rows without a call of a client."""

    seq: int
    scopes: dict[str, ScopeState]
    call: Call | None = None
    changed: bool = False


@attrs.define(eq=False)
class Process:
    """A life: its name, and the position of the last row it has followed."""

    number: int
    life: int
    root: int

    @property
    def name(self) -> str:
        return f"p{self.number}.{self.life}"


@attrs.define(eq=False)
class Client:
    """One session in one process, and the call it is in the middle of."""

    slot: int
    address: SessionAddress
    call: Call | None = None
    is_open: bool = False
    is_staged: bool = False
    answer: Json = attrs.field(factory=dict)
    # A call without an answer, to be asked for again.
    unanswered: Call | None = None


@attrs.define(eq=False)
class Chronicle:
    """Makes one history. ``states`` are those of all rows that are there, ``all_states`` of all that ever were."""

    chance: random.Random
    can_cut: bool = False
    can_lose: bool = False
    can_supersede: bool = False
    has_lives: bool = True
    history: History = attrs.field(factory=History)
    states: list[State] = attrs.field(factory=lambda: [State(0, {})])
    all_states: list[State] = attrs.field(factory=list)
    processes: list[Process] = attrs.field(factory=list)
    clients: list[Client] = attrs.field(factory=list)
    now: float = 0.0
    _late: list[tuple[Process, Client, Call]] = attrs.field(factory=list)
    _told: dict[str, tuple[int, Json]] = attrs.field(factory=dict)
    _tokens: int = 0
    _started: dict[str, float] = attrs.field(factory=dict)

    def write(self, calls: int) -> History:
        """A history of about so many calls."""
        self.processes = [Process(number, 1, 0) for number in range(self.chance.choice((1, 2, 3)))]
        for process in self.processes:
            self._started[process.name] = self._tick()
        for number, (cwd, session) in enumerate(SESSIONS):
            self.clients.append(Client(number % len(self.processes), SessionAddress(cwd, session, session)))
        while len(self.history.calls) < calls:
            self._happen()
        while any(client.call is not None for client in self.clients):
            self._step(self.chance.choice([client for client in self.clients if client.call is not None]))
        self._end()
        return self.history

    def _tick(self) -> float:
        self.now += self.chance.choice((0.5, 1.0, 3.0))
        return self.now

    def _happen(self) -> None:
        fate = self.chance.random()
        if fate < 0.02:
            self._kill(self.chance.choice(self.processes))
        elif fate < 0.03 and self.can_cut:
            self._cut()
        elif fate < 0.05 and self.can_supersede:
            self._supersede()
        elif fate < 0.08 and self._late:
            process, client, call = self._late.pop()
            if process in self.processes:
                self._stage(process, client, call)
        else:
            self._step(self.chance.choice(self.clients))

    # -- clients ------------------------------------------------------------------------------------------------

    def _step(self, client: Client) -> None:
        process, call = self.processes[client.slot], client.call
        if call is None:
            self._begin(process, client)
        elif call.kind == "open" or call.kind == "read":
            self._look(process, client, call)
            self._answer(client, call)
        elif client.is_staged:
            self._answer(client, call)
        elif self.chance.random() < 0.05:
            call.ended_s = self._tick()  # cancelled; it may be stored all the same
            client.call, client.unanswered = None, call
            self._late.append((process, client, call))
        else:
            self._stage(process, client, call)
            client.is_staged = True

    def _begin(self, process: Process, client: Client) -> None:
        address = client.address
        again = client.unanswered
        kind = "open"
        if client.is_open:
            kind = self.chance.choices(("patch", "read", "transaction", "respond"), (9, 6, 5, 1))[0]
            if again is not None and again.kind == "patch" and self.chance.random() < 0.5:
                kind = "patch"
            else:
                again = None
        call = Call(
            len(self.history.calls) + 1, process.name, address.cwd, address.session_id, kind, begun_s=self._tick()
        )
        self.history.calls.append(call)
        client.call, client.is_staged, client.answer = call, False, {}
        if kind in ("patch", "respond", "transaction"):
            call.request_id = f"r{call.number}"
        if kind == "patch":
            call.patches = self._patches()
            if again is not None:
                call.request_id, call.patches, client.unanswered = again.request_id, again.patches, None
        elif kind == "respond":
            call.patches = {"session": {"response": self._token()}}
        elif kind == "transaction":
            self._run(call, address, self.states[process.root].scopes)
        elif kind == "read" and self.chance.random() < 0.3:
            call.fresh = True

    def _look(self, process: Process, client: Client, call: Call) -> None:
        head = len(self.states) - 1
        if call.kind == "open":
            process.root, client.is_open = head, True
            if self.chance.random() < 0.5:
                self._append(State(self.states[-1].seq + 1, self.states[-1].scopes))
            return
        process.root = (
            head if call.fresh else self.chance.choice((process.root, self.chance.randint(process.root, head)))
        )
        scopes = self.states[process.root].scopes
        paths = self.chance.choices(PATHS, k=self.chance.choice((1, 1, 2)))
        projection = self.chance.choice(("value", "value", "keys"))
        for path in paths:
            call.steps.append(look(scopes, client.address, path, projection))

    def _answer(self, client: Client, call: Call) -> None:
        call.ended_s = self._tick()
        call.ending = client.answer.pop("ending", "ok")
        for name, value in client.answer.items():
            setattr(call, name, value)
        client.call = None

    # -- rows ---------------------------------------------------------------------------------------------------

    def _stage(self, process: Process, client: Client, call: Call) -> None:
        """What the store does with a call, with all rows in view."""
        process.root = len(self.states) - 1
        name = call.request_id
        assert name is not None
        if name in self._told:
            process_answer = self._told[name][1]
            client.answer = dict(process_answer) if client.call is call else client.answer
            return
        scopes = self.states[-1].scopes
        answer: Json
        try:
            after, changed = self._applied(scopes, client.address, call)
        except _Conflict as conflict:
            answer = {"ending": "refused", "code": "E_CONFLICT", "conflicts": conflict.items}
        except CallError as error:
            answer = {"ending": "refused", "code": error.code}
        else:
            seq = self.states[-1].seq + 1
            self._append(State(seq, after, call, changed))
            process.root = len(self.states) - 1
            revision = "".join(
                f"{kind[0]}{after.get(scope, ABSENT).revision}" for kind, scope in client.address.scopes()
            )
            answer = {"changed": changed, "seq": seq, "revision": revision}
            answer["transition_id"] = f"t{len(self.all_states)}" if changed else None
            self._told[name] = seq, answer
        if client.call is call:
            client.answer = dict(answer)

    def _append(self, state: State) -> None:
        self.states.append(state)
        self.all_states.append(state)

    def _applied(
        self, scopes: Mapping[str, ScopeState], address: SessionAddress, call: Call
    ) -> tuple[dict[str, ScopeState], bool]:
        if call.kind != "transaction":
            return applied(scopes, address, call.patches)
        now, conflicts = replayed(scopes, address, call)
        if conflicts:
            raise _Conflict(conflicts)
        after, changed = dict(scopes), False
        for _, scope in address.scopes():
            before, value = scopes.get(scope, ABSENT), now.get(scope, ABSENT).value
            if not same(before.value, value):
                after[scope] = attrs.evolve(before, value=value, revision=before.revision + 1, is_pruned=True)
                changed = True
        return after, changed

    def _run(self, call: Call, address: SessionAddress, scopes: Mapping[str, ScopeState]) -> None:
        """A transaction's function, on the state that its process shows."""
        work = dict(scopes)
        for _ in range(self.chance.choice((1, 2, 3))):
            if self.chance.random() < 0.6:
                projection = self.chance.choice(("value", "value", "keys"))
                call.steps.append(look(work, address, self.chance.choice(PATHS), projection))
                continue
            patches = self._patches()
            try:
                work, _ = applied(work, address, patches)
            except CallError:
                continue
            call.steps.append(patches)

    # -- chance -------------------------------------------------------------------------------------------------

    def _token(self) -> str:
        self._tokens += 1
        return f"v{self._tokens}"

    def _patches(self) -> Json:
        names = self.chance.sample(NAMES, self.chance.choice((1, 1, 1, 2, 3)))
        return {name: self._patch(name) for name in NAMES if name in names}

    def _patch(self, name: str) -> Json:
        key, token = self.chance.choice("km"), self._token()
        match self.chance.randrange(12):
            case 0:
                return {"working": {key: None}}
            case 1:
                return {"working": {"list": [token, self._token()]}}
            case 2:
                return {"working": {"list": {"[0]": token}}}
            case 3:
                return {"lazy": {key: token}}
            case 4:
                return {"intents": {"i": {"text": token, "$ref": f"{name}.working.{key}"}}}
            case 5:
                return {"intents": {"i": None}}
            case 6:
                return {"working": {"l": {}, key: {"x": token}}}
            case 7 | 8 | 9:
                return {"working": {key: {self.chance.choice("xy"): token}}}
        return {"working": {key: token, "l": self._token()}}

    # -- what goes wrong ----------------------------------------------------------------------------------------

    def _kill(self, process: Process) -> None:
        place = self.processes.index(process)
        self._bury(process)
        self.processes[place] = Process(process.number, process.life + 1, 0)
        self._started[self.processes[place].name] = self._tick()
        for client in self.clients:
            if client.slot == place:
                if client.call is not None and client.call.request_id is not None:
                    client.unanswered = client.call
                client.call, client.is_open = None, False

    def _bury(self, process: Process) -> None:
        self.history.lives.append(
            Life(process.name, self._started[process.name], self._tick(), "process" if self.can_lose else "power")
        )

    def _cut(self) -> None:
        for process in list(self.processes):
            self._kill(process)
        self.now += 3
        # All are dead before the first of them begins again.
        started = {process.name: self.now for process in self.processes}
        if self.can_lose:
            count = self.chance.choice((0, 1, 2, 4))
            lost = self.states[max(1, len(self.states) - count) :]
            del self.states[len(self.states) - len(lost) :]
            lost_seqs = {state.seq for state in lost}
            self.history.superseded = [
                attrs.evolve(item, lost_at_s=self.now - 2.5)
                if item.seq in lost_seqs and item.lost_at_s is None
                else item
                for item in self.history.superseded
            ]
            gone = {state.call.request_id for state in lost if state.call is not None}
            self._told = {name: told for name, told in self._told.items() if name not in gone}
            self.history.may_lose_tail = True
        self.history.cuts.append(PowerCut(self.now - 2.5, self.states[-1].seq))
        self._started.update(started)
        self._late.clear()

    def _supersede(self) -> None:
        scope = self.chance.choice(["", "--a--", *(client.address.scope("session") for client in self.clients)])
        known = self.states[-1].scopes.get(scope, ABSENT)
        value = {"working": {"k": self._token(), "theirs": self._token()}}
        if self.chance.random() < 0.5:
            value["working"]["empty"] = {}  # type: ignore[assignment]
        revision = known.revision + self.chance.choice((-1, 0, 1)) if known.revision else 1
        found = attrs.evolve(known, value=value, revision=revision, is_pruned=False)
        seq = self.states[-1].seq + 1
        self._append(State(seq, {**self.states[-1].scopes, scope: found}))
        told = self.chance.choice((revision, None))
        self.history.superseded.append(Superseded(seq, scope, value, told))

    def _end(self) -> None:
        for process in self.processes:
            self._bury(process)
        history, rows = self.history, {state.seq: state for state in self.states}
        for call in history.calls:
            if call.ending == "unknown" and call.request_id is not None:
                told = self._told.get(call.request_id)
                history.outcomes[call.request_id] = told[0] if told is not None and told[0] in rows else None
        for scope, state in sorted(self.states[-1].scopes.items()):
            history.final.append(FinalScope(scope, state.value, state.revision, state.value))
        if not self.has_lives:
            history.lives.clear()


class _Conflict(Exception):
    def __init__(self, items: list[Json]) -> None:
        super().__init__(items)
        self.items = items


def look(scopes: Mapping[str, ScopeState], address: SessionAddress, path: str, projection: str) -> Read:
    """What a session reads there."""
    view = View({name: scopes.get(scope, ABSENT) for name, scope in address.scopes()}, lambda: ())
    try:
        result = read(view, {"path": path, "projection": projection})
    except ReadError:
        return Read(path, None, True, projection)  # type: ignore[arg-type]
    found = result.keys if projection == "keys" else result.value
    return Read(path, found, result.hint is not None, projection)  # type: ignore[arg-type]


def applied(
    scopes: Mapping[str, ScopeState], address: SessionAddress, patches: Json
) -> tuple[dict[str, ScopeState], bool]:
    """The scopes after one call's patches, and whether anything changed."""
    trio = {name: scopes.get(scope, ABSENT) for name, scope in address.scopes()}
    response = patches.get("session", {}).get("response")
    staged: StagedCall = (
        stage_patch(trio, {name: patches[name] for name in NAMES if name in patches})  # type: ignore[misc]
        if response is None
        else stage_response(trio["session"], response)
    )
    after = dict(scopes)
    for name, scope in address.scopes():
        if name in staged.values:
            revision = trio[name].revision + 1
            after[scope] = attrs.evolve(trio[name], value=staged.values[name], revision=revision, is_pruned=True)
    return after, staged.changed


def replayed(
    scopes: Mapping[str, ScopeState], address: SessionAddress, call: Call
) -> tuple[Mapping[str, ScopeState], list[Json]]:
    """The scopes after a transaction's steps, and what its reads find otherwise than it did."""
    work, conflicts = dict(scopes), []
    for step in call.steps:
        if isinstance(step, Read):
            now = look(work, address, step.path, step.projection)
            if not same(now.found, step.found) or now.is_absent != step.is_absent:
                told = [{"meta": {}, "keys": found} for found in (step.found, now.found)]
                pair = [step.found, now.found]
                if step.projection == "keys":
                    pair = [None if item["keys"] is None else item for item in told]
                conflicts.append({"path": step.path, "projection": step.projection, "read": pair[0], "now": pair[1]})
        else:
            try:
                work, _ = applied(work, address, step)
            except CallError as error:
                path = "patch"
                conflicts.append({"path": path, "projection": "patch", "read": None, "now": error.code})
    return work, conflicts


def perfect_history(seed: int, calls: int = 40) -> Chronicle:
    """A chronicle with its history written."""
    chance = random.Random(f"history {seed}")
    chronicle = Chronicle(
        chance,
        can_cut=chance.random() < 0.4,
        can_lose=chance.random() < 0.4,
        can_supersede=chance.random() < 0.3,
        has_lives=chance.random() < 0.7,
    )
    chronicle.write(calls)
    return chronicle
