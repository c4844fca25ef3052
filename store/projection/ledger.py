"""The prefix ledger: whether a request begins with the bytes of the one before, and if not, where it departs.

What is compared is one canonical form of a message list: compact JSON in UTF-8, members in the order in which they
stand, nothing escaped but what JSON must escape (lone surrogates as ``\\udxxx``). A provider sees another form; but
what is equal here is equal there, as long as its form is a function of the messages.

A later request *extends* an earlier one if it begins with all its bytes but the closing bracket (C10).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ..algebra import CallError, shown
from .carried import Rebase
from .messages import Message

# A message list, or one message, in canonical form.
Serialise = Callable[[Any], bytes]


def canonical_messages(messages: Any) -> bytes:
    """The canonical form of a message list (or of any JSON value).

    Raises:
      CallError: E_JSON for what is none.
    """
    try:
        text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise CallError("E_JSON", f"messages that are compared must be JSON: {error}") from error
    return text.encode("utf-8", "backslashreplace")


@attrs.frozen
class PrefixDeparture:
    """Where two requests part.

    Attributes:
      byte: offset of the first differing byte in the canonical form.
      message: index of the message it belongs to.
      field: place in that message, such as ``content[0].text``; empty for the message as a whole.
      before, after: what stands there in both, shortened; None where nothing stands.
    """

    byte: int
    message: int
    field: str
    before: str | None
    after: str | None


@attrs.frozen
class PrefixReport:
    """Two requests, one after the other.

    Attributes:
      previous_bytes, current_bytes: lengths of the canonical forms.
      shared_bytes: how many first bytes are equal.
      rebase: why the projection began anew, None if it says that it did not.
      departure: None if the later request extends the earlier one.
    """

    previous_bytes: int
    current_bytes: int
    shared_bytes: int
    rebase: Rebase | None
    departure: PrefixDeparture | None

    @property
    def is_explained(self) -> bool:
        """Whether the prefix is kept or a rule of the projection says why not."""
        return self.departure is None or self.rebase is not None

    def __str__(self) -> str:
        text = f"{self.shared_bytes} of {self.previous_bytes} bytes are shared"
        if self.departure is None:
            return f"{text}: the request extends the one before"
        place = f"message {self.departure.message}" + (f", {self.departure.field}" if self.departure.field else "")
        reason = "no rule says why" if self.rebase is None else f"a new projection begins ({self.rebase})"
        return (
            f"{text}; byte {self.departure.byte}, {place}: {self.departure.before or 'nothing'} became "
            f"{self.departure.after or 'nothing'}; {reason}"
        )


def compare_requests(
    previous: Sequence[Message],
    current: Sequence[Message],
    rebase: Rebase | None = None,
    serialise: Serialise = canonical_messages,
) -> PrefixReport:
    """How two consecutive requests of one session relate. The cost is that of writing both out.

    Raises:
      CallError: E_JSON for messages that are no JSON, unless ``serialise`` can write them.
    """
    old, new = serialise(list(previous)), serialise(list(current))
    common = shared_bytes(old, new)
    departure = None if common >= len(old) - 1 else _departure(previous, current, serialise)
    return PrefixReport(len(old), len(new), common, rebase, departure)


@attrs.frozen(eq=False)
class SentRequest:
    """A request as it was sent, and what the projection said about it."""

    messages: Sequence[Message]
    rebase: Rebase | None = None


def assert_prefix_stable(
    requests: Sequence[SentRequest | Sequence[Message]], serialise: Serialise = canonical_messages
) -> list[PrefixReport]:
    """Assert that each request extends the one before it, or says why not; the reports, one less than requests.

    A plain list of messages says nothing, so it must extend.

    Raises:
      AssertionError: the first request that departs without a reason, with its report.
    """
    sent = [item if isinstance(item, SentRequest) else SentRequest(item) for item in requests]
    reports = []
    for number in range(1, len(sent)):
        current = sent[number]
        report = compare_requests(sent[number - 1].messages, current.messages, current.rebase, serialise)
        if not report.is_explained:
            raise AssertionError(f"request {number} does not extend request {number - 1}: {report}")
        reports.append(report)
    return reports


def shared_bytes(left: bytes, right: bytes) -> int:
    """How many first bytes are equal. By halving: comparing slices is a hundred times faster than comparing bytes."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _departure(previous: Sequence[Message], current: Sequence[Message], serialise: Serialise) -> PrefixDeparture:
    offset = 1
    for index, before in enumerate(previous):
        if index >= len(current):
            return PrefixDeparture(offset - 1 if index else offset, index, "", _short(before), None)
        old, new = serialise(before), serialise(current[index])
        if old != new:
            field, left, right = _field(before, current[index])
            return PrefixDeparture(offset + shared_bytes(old, new), index, field, left, right)
        offset += len(old) + 1
    raise AssertionError("equal messages have different bytes: the serialisation is not a function of the message")


_ABSENT: Any = object()


def _field(before: Any, after: Any, path: str = "") -> tuple[str, str | None, str | None]:
    """The first place, in the order of writing, at which two values differ."""
    if type(before) is dict and type(after) is dict:
        pairs = list(zip(before.items(), after.items(), strict=False))
        for (key, left), (other, right) in pairs:
            place = f"{path}.{key}" if path else key
            if key != other:
                return place, shown(key), shown(other)
            if canonical_messages(left) != canonical_messages(right):
                return _field(left, right, place)
        if len(before) != len(after):
            key = list(before if len(before) > len(after) else after)[len(pairs)]
            place = f"{path}.{key}" if path else key
            return place, _short(before.get(key, _ABSENT)), _short(after.get(key, _ABSENT))
    if type(before) is list and type(after) is list:
        for index, (left, right) in enumerate(zip(before, after, strict=False)):
            if canonical_messages(left) != canonical_messages(right):
                return _field(left, right, f"{path}[{index}]")
        index = min(len(before), len(after))
        rest = [value[index] if index < len(value) else _ABSENT for value in (before, after)]
        return f"{path}[{index}]", _short(rest[0]), _short(rest[1])
    if type(before) is str and type(after) is str:
        at = max(0, shared_bytes(canonical_messages(before), canonical_messages(after)) - 24)
        return path, _excerpt(before, at), _excerpt(after, at)
    return path, _short(before), _short(after)


def _short(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    return shown(value) if type(value) not in (dict, list) else shown(canonical_messages(value).decode("utf-8"))


def _excerpt(text: str, at: int) -> str:
    """The part of a long text around the difference. ``at`` counts bytes; for a reader that is near enough."""
    return shown(text) if at == 0 else "…" + shown(text[at : at + 64])
