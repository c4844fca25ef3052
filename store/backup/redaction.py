"""No secret of a repository leaves this program: texts of Git are redacted before anybody keeps or sees them.

Two nets. What is known to be secret (passwords in the URLs of remotes, headers for HTTP) is taken out in every form in
which it may turn up: as it is, percent-encoded, escaped for a shell or for JSON, and inside of base64, where three
alignments of the same bytes give three texts. What only looks like a secret is taken out by its surroundings.

A text is redacted whole and cut afterwards: half a secret would be found by neither net.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, final

import attrs

HIDDEN: Final = "***"
TAIL_CHARS: Final = 1_000
# Shorter ones would take half of the text along, and are none.
_SECRET_CHARS_MIN = 4

# A password may hold slashes that nobody has escaped; a port is none.
_OPEN_PASSWORD = r"[^\s/@:'\"<>]+:(?!\d+/)[^\s@'\"<>]+"
_USER_INFO = re.compile(rf"(?i)\b([a-z][a-z0-9+.-]*://)(?:[^\s/@'\"<>]+|{_OPEN_PASSWORD})(?=@)")
# The last word of a name tells: access_token, X-Amz-Signature.
_QUERY = re.compile(r"(?i)\b([\w.-]*(?:auth|key|passw(?:or)?d|secret|signature|token))=[^&\s'\"<>]+")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization\s*[:=]\s*)[^\r\n'\"]+")
_SETTING = re.compile(r"(?i)(extraheader\s*[= ]\s*)[^\r\n]+")
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]")
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]", re.ASCII)
_SCHEMES = frozenset("basic bearer token digest negotiate".split())


@final
@attrs.frozen(repr=False)
class Redactor:
    """Takes secrets out of texts. Made by ``redactor``; shows nothing of what it knows."""

    _forms: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return "<Redactor>"

    def __call__(self, text: str) -> str:
        """``text`` with ``***`` in place of every secret, and nothing in it that could not be shown."""
        if self._forms is not None:
            text = self._forms.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}", text)
        text = _QUERY.sub(rf"\1={HIDDEN}", text)
        text = _HEADER.sub(rf"\1{HIDDEN}", text)
        return printable(_SETTING.sub(rf"\1{HIDDEN}", text))

    def tail(self, text: str) -> str:
        """The last 1,000 characters of the redacted text, without blanks around it."""
        return self(text).strip()[-TAIL_CHARS:]


def printable(text: str) -> str:
    """``text`` as it can be noted and shown: bytes of names that are no UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def redactor(secrets: Iterable[str] = ()) -> Redactor:
    """A redactor that knows these secrets, in all forms."""
    forms = {form for secret in secrets if len(secret) >= _SECRET_CHARS_MIN for form in _forms_of(secret)}
    if not forms:
        return Redactor()
    # The longest first: a secret that is a part of another one must not leave the rest of it standing.
    return Redactor(re.compile("|".join(map(re.escape, sorted(forms, key=lambda form: (-len(form), form))))))


def secrets_of_url(url: str) -> set[str]:
    """What is secret in the URL of a remote: user, password and their parts, values of a query."""
    found = set()
    # The last @ before the path: a password may hold others.
    authority = re.match(rf"(?i)[a-z][a-z0-9+.-]*://([^/]*|{_OPEN_PASSWORD})@", url)
    if authority is not None:
        user, colon, password = authority[1].partition(":")
        # A name alone may be a token, but "git@" of every other URL is none.
        found |= {authority[1], password} if colon else {user} if len(user) > 8 else set()
    found |= {match[0].partition("=")[2] for match in _QUERY.finditer(url)}
    return found | {_unquoted(text) for text in found}


def secrets_of_header(header: str) -> set[str]:
    """What is secret in a header for HTTP: its value, the words of it, and what base64 hides in them."""
    value = header.partition(":")[2].strip()
    words = {word for word in value.split() if word.lower() not in _SCHEMES}
    hidden = {part for word in words for part in _decoded(word)}
    return {value, *words, *hidden}


def _decoded(word: str) -> Iterator[str]:
    try:
        text = base64.b64decode(word, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield text
    yield text.partition(":")[2]


def _forms_of(secret: str) -> Iterator[str]:
    yield secret
    quoted = "".join(char if _PLAIN.match(char) else _quoted(char) for char in secret)
    yield quoted
    yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    yield _unquoted(secret) or secret
    yield "".join(char if _SHELL_SAFE.match(char) else "\\" + char for char in secret)
    yield secret.replace("'", "'\\''")
    yield secret.replace("'", "'\"'\"'")
    yield re.sub(r'([\\"$`])', r"\\\1", secret)
    yield json.dumps(secret)[1:-1]
    data = secret.encode("utf-8", "surrogateescape")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            text = encode(b"\0" * before + data).decode().rstrip("=")
            # Characters that neighbours have a share in are left out: they are not the same everywhere.
            start = (0, 2, 3)[before]
            end = (before + len(data)) * 8 // 6
            if end - start >= _SECRET_CHARS_MIN:
                yield text[start:end]


def _quoted(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))


def _unquoted(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    data = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), data)
    return data.decode("utf-8", "replace")
