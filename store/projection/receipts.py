"""Receipts: what a patch came to in the effective view, as far as its author could not foresee it (T19 to T32).

::

    base -> new, and every authored place   candidate entries   (T25, coalesced by T26)
    what the author could foresee           is dropped          (T27)

The author is taken to hold the base (what head, updates and earlier receipts have told) and to have merged its own
patches onto it, global first. An entry that would say the same is dropped. Without a head nothing is known, and the
receipt names no projection: whatever head comes later shows a newer state, so the receipt must not be applied to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..algebra import RUNTIME_MEMBERS, CallError, Json, ScopeName, detach, kind, merge_pruned, same
from ..algebra.merge import is_index_form
from .authored import Authored, authored_places
from .carried import Carried
from .differences import Entry, Places, differences
from .messages import Dump
from .navigation import is_complete
from .section import Mode
from .shown import NOTHING, Scopes, Shown, look
from .trajectory import Hints


@attrs.frozen(eq=False)
class AcceptedCall:
    """A ``patch_state`` call that was accepted, also one that changed nothing.

    Attributes:
      patches: as authored (``check_patch_arguments``).
      before: the scopes that it was staged on.
      after: the scopes once it was accepted, or later.
      cascaded: see ``StagedCall``.
      hints: of stale cards, now.
      call_id: of the tool call; if it is given the next request is checked for its result.
    """

    patches: Mapping[ScopeName, Json]
    before: Scopes
    after: Scopes
    cascaded: tuple[str, ...] = ()
    hints: Hints = attrs.field(factory=dict)
    mode: Mode = "active"
    call_id: str | None = None


def acknowledge_call(carried: Carried, call: AcceptedCall, dump: Dump) -> tuple[Carried, Json | None]:
    """The ``state_updates`` of a call (T21), None if there is nothing to tell, and what to carry on.

    The new value counts as told (T30), so that no update repeats it. Drop the value if the receipt does not go out;
    if it gets lost later, a given ``call_id`` lets the next request notice. Either way an update tells it then.
    """
    live = carried.live
    if live is None or live.shown is None:
        hides = call.mode != "active"
        base = look(call.before, call.hints, hides_response=hides, dump=dump)
        new = look(call.after, call.hints, hides_response=hides, dump=dump, last=base)
        return carried, _state_updates(call, base, new, None)
    base = live.shown
    new = look(call.after, call.hints, hides_response=base.hides_response, dump=dump, last=base)
    updates = _state_updates(call, base, new, live.id)
    if new is base:
        return carried, updates
    unseen = live.unseen if call.call_id is None else (*live.unseen, (call.call_id, base))
    return Carried(attrs.evolve(live, shown=new, unseen=unseen)), updates


def receipt_text(updates: Json, dump: Dump) -> str:
    """The second block of a result (T19)."""
    return "\n" + dump({"state_updates": updates})


def _state_updates(call: AcceptedCall, base: Shown, new: Shown, head_id: str | None) -> Json | None:
    authored = Authored(call.patches, base if head_id is not None else None, call.cascaded)
    entries = [entry.to_json() for entry in _candidates(call, base, new) if not _is_foreseen(entry, authored)]
    updates: Json = {"projection": head_id, "effective": entries}
    if not same(base.navigation, new.navigation) and not (head_id and _is_navigation_foreseen(call, base, new)):
        updates["lazy_navigation"] = detach(new.navigation)
    if call.cascaded:
        updates["cascaded"] = list(call.cascaded)
    return updates if entries or len(updates) > 2 else None


# -- candidates -----------------------------------------------------------------------------------------------------


def _candidates(call: AcceptedCall, base: Shown, new: Shown) -> Iterable[Entry]:
    """The topmost of all places that changed or were authored, with their values now (T25, T26)."""
    found = Places()
    for entry in differences(base, new):
        found.add(entry)
    for patch in call.patches.values():
        for entry in authored_places(patch, new):
            found.add(entry)
    return found.topmost()


# -- suppression ----------------------------------------------------------------------------------------------------


def _is_foreseen(entry: Entry, authored: Authored) -> bool:
    """Whether the author knows what the entry would tell (T27)."""
    known = authored.known
    if known is not None and entry.is_deleted and known.at(entry.path) is NOTHING:
        # a; but an author who wrote something there must learn that a narrower scope hides it.
        return not authored.writes_at(entry.path)
    found = authored.at(entry.path)
    if found is None:
        return False  # b
    scope, value = found
    is_final = scope == "session" and value is not None and type(value) is not dict
    if not is_final and authored.is_contested(entry.path, scope):
        return False  # c
    if entry.is_deleted or value == {}:
        return False  # an empty object writes nothing, so nothing was foreseen
    # Only what is needed is looked up: of a large patch most entries are plain values.
    before = known.at(entry.path) if known is not None and (value is None or type(value) is dict) else NOTHING
    if value is None:  # e
        return before is not NOTHING and same(entry.value, before)
    if entry.path[0] == "artifacts" and len(entry.path) == 2:  # d
        return _is_card_foreseen(entry.value, before, value)
    # An object of indexes that meets an array is foreseen to edit it. It may have replaced something else by now.
    if type(before) is list and is_index_form(value):
        return False
    return same(entry.value, value)


def _is_card_foreseen(card: Any, before: Any, value: Any) -> bool:
    """Whether a card is the known one with the authored one merged onto it, its known hint included."""
    if type(value) is not dict:
        return same(card, value)
    known = before if type(before) is dict else {}
    plain = {member: item for member, item in known.items() if member not in RUNTIME_MEMBERS}
    try:
        expected = merge_pruned(plain, value)
    except CallError:
        return False
    return same(card, {**expected, "hint": known["hint"]} if "hint" in known else expected)


def _is_navigation_foreseen(call: AcceptedCall, base: Shown, new: Shown) -> bool:
    """Whether the author can tell the new catalog from the known one and its own keys (T28)."""
    if not is_complete(base.navigation) or "keys" not in new.navigation:
        return False
    expected: dict[str, str] = dict(base.navigation.get("keys", {}))
    known = frozenset(name for name, of in expected.items() if of == "array")
    seen: set[str] = set()
    for patch in call.patches.values():
        for name, value in patch.get("lazy", {}).items():
            if name in seen or value is None or (type(value) is dict and name in known):
                return False
            seen.add(name)
            expected[name] = kind(value)
    return same(expected, new.navigation["keys"])
