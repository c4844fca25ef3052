"""What was true of a correct history at every row, so that damages know where they do harm; their register."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from kit.perfect_histories import Chronicle, State, look
from strataflow.runtime.simulation.history import Call, FinalScope, Read
from strataflow.store import SessionAddress

Json = dict[str, Any]
Damage = Callable[[Chronicle, random.Random], bool]
Keys = tuple[str, ...]

DAMAGES: dict[str, list[Damage]] = {}


def breaks(rule: str) -> Callable[[Damage], Damage]:
    """This damage must be found under that name."""

    def note(damage: Damage) -> Damage:
        DAMAGES.setdefault(rule, []).append(damage)
        return damage

    return note


def address_of(call: Call) -> SessionAddress:
    return SessionAddress(call.cwd, call.session, call.session)


def leaves(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*keys, key))
    else:
        yield keys, value


def patches_of(call: Call) -> list[Json]:
    if call.kind == "transaction":
        return [step for step in call.steps if not isinstance(step, Read)]
    return [call.patches]


def written(call: Call) -> list[tuple[str, Keys, Any]]:
    """The places at which a call writes strings or arrays that nobody else writes."""
    address = address_of(call)
    return [
        (address.scope(name), keys, value)  # type: ignore[arg-type]
        for patches in patches_of(call)
        for name, patch in patches.items()
        for keys, value in leaves(patch)
        if isinstance(value, str | list) and not any(key.startswith("[") for key in keys) and "$ref" not in keys
    ]


def at(value: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def with_leaf(value: Json, keys: Keys, leaf: Any) -> Json:
    """A copy with one leaf set, or removed with what becomes empty by that."""
    result = dict(value)
    if len(keys) == 1:
        new = leaf
    else:
        below = value.get(keys[0])
        new = with_leaf(below if isinstance(below, dict) else {}, keys[1:], leaf)
    if new is None or new == {}:
        result.pop(keys[0], None)
    else:
        result[keys[0]] = new
    return result


def stored(chronicle: Chronicle) -> list[tuple[int, State, Call]]:
    """The rows of calls that changed something and had an answer: place in ``states``, row, call."""
    return [
        (place, state, state.call)
        for place, state in enumerate(chronicle.states)
        if state.call is not None and state.changed and state.call.ending == "ok"
    ]


def in_the_end(chronicle: Chronicle, call: Call) -> list[tuple[str, Keys, str]]:
    """Those places of a call that still show it."""
    final = {scope.scope: scope.value for scope in chronicle.history.final}
    return [item for item in written(call) if at(final.get(item[0], {}), item[1]) == item[2]]


def end_with(chronicle: Chronicle, scope: str, keys: Keys, leaf: Any, revisions: int = 0) -> None:
    """Let a scope be found with another leaf in the end, in its files too."""
    final = chronicle.history.final
    for place, item in enumerate(final):
        if item.scope == scope:
            value = with_leaf(item.value, keys, leaf)
            final[place] = attrs.evolve(item, value=value, file_value=value, revision=item.revision + revisions)
            return
    value = with_leaf({}, keys, leaf)
    final.append(FinalScope(scope, value, revisions, value))


def pick(chance: random.Random, found: list[Any]) -> Any:
    return chance.choice(found) if found else None


def reads(chronicle: Chronicle) -> list[Call]:
    return [call for call in chronicle.history.calls if call.kind == "read" and call.ending == "ok"]


def value_at(chronicle: Chronicle, place: int, call: Call, path: str) -> Read:
    return look(chronicle.states[place].scopes, address_of(call), path, "value")


def is_shared(chronicle: Chronicle, *calls: Call) -> bool:
    """Whether a request of theirs was asked for more than once, so that it could be older."""
    names = [call.request_id for call in chronicle.history.calls]
    return any(names.count(call.request_id) > 1 for call in calls)


def has_intents(call: Call) -> bool:
    return any("intents" in patch for patches in patches_of(call) for patch in patches.values())
