"""Projecting: the messages of one request, as a continuation of those before (C8 to C12, C17 to C20).

A request extends what was sent: new native messages, then, if the memory has moved otherwise than by what receipts
told, one update. Only where something ended (see ``carried``) it begins with a new head. The cost follows what is new:
values are compared by identity, records say where to look, and texts are written once.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..algebra import Json, detach, same
from .carried import NOTHING_SENT, Carried, Live, Rebase, end_projection
from .differences import Places, differences
from .heads import captured, handoff_message, passive_head, runtime_head
from .messages import Dump, Message, Synthetic
from .request import ContextRequest, HeadKind, kind_of
from .section import section_for, with_section
from .shown import Shown, look
from .texts import UPDATE_LABEL
from .trajectory import run_trajectory


def project(carried: Carried, request: ContextRequest, dump: Dump) -> tuple[Carried, Sequence[Message], Rebase | None]:
    """The messages of a request, what to carry on, and why they do not continue the last ones (None if they do).

    In off mode, and while there is no memory to show, the host's messages come back, without the system section where
    it does not belong; the same list if there is nothing to change. Whatever else comes back is a new list: the host's
    own messages in it, synthetic ones as copies.
    """
    if request.mode == "off":
        return _plain(end_projection(carried, "mode"), "mode", with_section(request.messages, None))
    kind, live = kind_of(request), carried.live
    native, systems = _with_protocol(live, request)
    chosen = _chosen(native, request)
    reason = _ended(carried, request, kind, chosen)
    if reason is not None:
        if kind is None:
            # Nothing can be shown, so nothing begins. (A live projection would go on, only without updates.)
            return _plain(end_projection(carried, reason), "session", native)
        native, systems = _with_protocol(None, request)
        live, chosen = _begun(request, kind, dump), _chosen(native, request)
    assert live is not None
    live, doubted = _extended(live, chosen, systems)
    live = _updated(live, request, dump, doubted)
    messages = [item.message() if isinstance(item, Synthetic) else item for item in live.sent]
    return carried if live is carried.live else Carried(live), messages, reason


def _plain(
    carried: Carried, later: Rebase, messages: Sequence[Message]
) -> tuple[Carried, Sequence[Message], Rebase | None]:
    """A request without memory. ``later`` is why the next one that shows memory will not continue it."""
    reason: Rebase | None = carried.ended
    if carried.plain is not None:
        reason = None if tuple(messages[: len(carried.plain)]) == carried.plain else "native"
    return Carried(None, later, tuple(messages)), messages, reason


def preview_request(request: ContextRequest, dump: Dump) -> Sequence[Message]:
    """The messages of a request that must leave no trace: one without a live operation, before preparation (C12)."""
    return project(NOTHING_SENT, request, dump)[1]


def _with_protocol(live: Live | None, request: ContextRequest) -> tuple[Sequence[Message], int]:
    """The native messages with the section, and among how many system messages it was placed."""
    section = section_for(request.mode, bootstrap=request.bootstrap, is_loaded=request.scopes is not None)
    systems = live.systems if live is not None else 0
    if not systems:
        systems = [message.get("role") for message in request.messages].count("system")
    return with_section(request.messages, section, systems), systems


def _chosen(messages: Sequence[Message], request: ContextRequest) -> Sequence[Message]:
    """The native messages that stay (C24 to C27)."""
    if request.mode == "active" and not request.bootstrap:
        return run_trajectory(messages, request.anchor, request.specification)
    return messages if request.handoff is None else request.handoff.chosen(messages)


def _ended(
    carried: Carried, request: ContextRequest, kind: HeadKind | None, chosen: Sequence[Message]
) -> Rebase | None:
    """Why the request can not continue what was sent (C11, X3)."""
    live = carried.live
    if live is None:
        return carried.ended
    # Without a kind there is no memory to show: then only the mode itself can tell that another one was chosen.
    is_other = live.kind != kind if kind is not None else (live.kind == "runtime") != (request.mode == "active")
    if is_other:
        return "mode"
    if live.id is None and request.scopes is not None:
        return "session"
    # Messages that are equal but made anew continue too: those that were sent are repeated. One whose content changed
    # under the same role and time is another message: to go on would be to break the prefix in silence.
    return None if tuple(chosen[: len(live.native)]) == live.native else "native"


def _begun(request: ContextRequest, kind: HeadKind, dump: Dump) -> Live:
    """A new projection that has told the present state and no message yet."""
    if kind == "handoff":
        assert request.handoff is not None
        shown = captured(request, dump)
        head_id = None if request.scopes is None else request.new_id
        head = handoff_message(request.handoff, shown, head_id, request.time_ms, dump)
        return Live(head_id, kind, (head,), None if head_id is None else shown)
    assert request.scopes is not None
    shown = look(request.scopes, request.hints, hides_response=kind != "runtime", dump=dump)
    if kind == "passive":
        return Live(request.new_id, kind, (passive_head(request, shown, dump),), shown)
    sent = [runtime_head(request, shown, dump)]
    if request.bootstrap and request.handoff is not None:
        sent.append(handoff_message(request.handoff, captured(request, dump), None, request.handoff.at, dump))
    invalidations = detach(list(request.invalidations))
    return Live(request.new_id, kind, tuple(sent), shown, invalidations=invalidations, phase=request.phase)


def _extended(live: Live, chosen: Sequence[Message], systems: int) -> tuple[Live, tuple[Shown, ...]]:
    """The projection with the native messages that are new, and the views that its reader may hold parts of.

    A receipt whose message is not among them was lost on its way (an aborted call, a host that cuts). Then its reader
    holds what was known before it, and of every later receipt that did arrive what that one told: the update that
    follows must tell every place at which any of those views differs from the present one. (X2)
    """
    new = tuple(chosen[len(live.native) :])
    doubted: tuple[Shown, ...] = ()
    if live.unseen:
        arrived = {message.get("toolCallId") for message in new}
        lost = [index for index, (call_id, _) in enumerate(live.unseen) if call_id not in arrived]
        doubted = tuple(before for _, before in live.unseen[lost[0] :]) if lost else ()
    elif not new and live.systems == systems:
        return live, ()
    return attrs.evolve(live, native=live.native + new, sent=live.sent + new, systems=systems, unseen=()), doubted


def _updated(live: Live, request: ContextRequest, dump: Dump, doubted: tuple[Shown, ...]) -> Live:
    """The projection with an update at its end, if the memory is not what has been told (C17)."""
    if live.id is None or live.shown is None or request.scopes is None:
        return live
    is_runtime = live.kind == "runtime"
    shown = look(request.scopes, request.hints, hides_response=not is_runtime, dump=dump, last=live.shown)
    update: Json = {}
    if doubted or shown is not live.shown:
        told = _state_updates(live.id, (*doubted, live.shown), shown)
        if told is not None:
            update["state_updates"] = told
    invalidations, phase = live.invalidations, live.phase
    if is_runtime and not same(list(request.invalidations), invalidations):
        invalidations = update["artifact_invalidations"] = detach(list(request.invalidations))
    if is_runtime and request.phase != phase:
        phase = request.phase
        update["knowledge_rehydration"] = None if phase is None else {"phase": phase}
    if not update:
        return live if shown is live.shown else attrs.evolve(live, shown=shown)
    notice = Synthetic((f"{UPDATE_LABEL}\n{dump(update)}",), request.time_ms)
    return attrs.evolve(live, sent=(*live.sent, notice), shown=shown, invalidations=invalidations, phase=phase)


def _state_updates(projection_id: str, held: Sequence[Shown], new: Shown) -> Json | None:
    """What leads to ``new`` whoever holds, at each place, what one of the views ``held`` has there."""
    places = Places()
    for old in held:
        for entry in differences(old, new):
            places.add(entry)
    entries = [entry.to_json() for entry in places.topmost()]
    has_moved = any(not same(old.navigation, new.navigation) for old in held)
    if not entries and not has_moved:
        return None
    told: Json = {"projection": projection_id, "effective": entries}
    return {**told, "lazy_navigation": new.navigation} if has_moved else told
