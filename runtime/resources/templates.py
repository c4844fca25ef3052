"""Prompt templates: texts with places for arguments, called as ``/name arguments`` (host 4.4). Pure.

Places are filled in one pass over the template: what stands in an argument is never filled again.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import attrs

from .front_matter import FrontMatter, read_front_matter
from .skills import ResourceScope

TEMPLATE_DESCRIPTION_CHARS_MAX = 60
_PLACE = re.compile(r"\$(?P<number>[0-9]+)|\$\{@:(?P<first>[0-9]+)(?::(?P<count>[0-9]+))?\}|\$ARGUMENTS|\$@")
_ENDING = ".md"


@attrs.frozen
class PromptTemplate:
    """A template.

    Attributes:
      name: of its file without ``.md``; called as ``/name``.
      description: for people who choose one.
      content: the text with its places.
      argument_hint: what arguments it takes, for people; None if it does not say.
    """

    name: str
    description: str
    content: str
    path: str
    argument_hint: str | None = None
    scope: ResourceScope = "given"


def parse_template(path: str, text: str, scope: ResourceScope = "given") -> PromptTemplate:
    """Read the text of a template file.

    Raises:
      FrontMatterError: its front matter is no YAML.
    """
    matter = read_front_matter(text)
    described, hint = matter.fields.get("description"), matter.fields.get("argument-hint")
    return PromptTemplate(
        name=posixpath.basename(path).removesuffix(_ENDING),
        description=described if isinstance(described, str) and described else _first_line(matter),
        content=matter.body,
        path=path,
        argument_hint=hint if isinstance(hint, str) and hint else None,
        scope=scope,
    )


def _first_line(matter: FrontMatter) -> str:
    line = next((line for line in matter.body.split("\n") if line.strip()), "")
    is_long = len(line) > TEMPLATE_DESCRIPTION_CHARS_MAX
    return line[:TEMPLATE_DESCRIPTION_CHARS_MAX] + ("..." if is_long else "")


def split_arguments(text: str) -> list[str]:
    """Arguments as typed: parted by blanks and tabs; quotes group, also inside of a word, and are taken off.

    There are no escapes; an empty argument vanishes; a quote that is not closed reaches to the end.
    """
    found: list[str] = []
    word, quote = "", ""
    for char in text:
        if quote:
            word, quote = (word, "") if char == quote else (word + char, quote)
        elif char in "\"'":
            quote = char
        elif char in " \t":
            found.append(word)
            word = ""
        else:
            word += char
    return [word for word in (*found, word) if word]


def fill_template(content: str, arguments: Sequence[str]) -> str:
    """Fill the places: ``$1``, ``$2``, …; ``${@:N}`` from the Nth on and ``${@:N:L}`` L of them; ``$ARGUMENTS`` and
    ``$@`` all. What is not there is empty."""

    def filling(place: re.Match[str]) -> str:
        if place["number"]:
            index = int(place["number"][:9]) - 1
            return arguments[index] if 0 <= index < len(arguments) else ""
        # A list has no billion elements: longer numbers are cut, since Python refuses to read endless ones.
        start = max(int((place["first"] or "1")[:9]) - 1, 0)
        end = len(arguments) if place["count"] is None else start + int(place["count"][:9])
        return " ".join(arguments[start:end])

    return _PLACE.sub(filling, content)


def expand_template(text: str, templates: Sequence[PromptTemplate]) -> str:
    """``/name arguments`` as the template's text, filled; any other text, and an unknown name, unchanged."""
    if not text.startswith("/"):
        return text
    name, _, arguments = text[1:].partition(" ")
    template = next((template for template in templates if template.name == name), None)
    return text if template is None else fill_template(template.content, split_arguments(arguments))
