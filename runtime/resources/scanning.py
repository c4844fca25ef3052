"""Walks over folders of skills and templates (host 4.3.4, 4.4.1). What cannot be read is told, the rest is loaded."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import attrs

from . import files
from .diagnoses import ResourceDiagnosis
from .finding import Source
from .front_matter import FrontMatterError
from .ignoring import IGNORE_FILES, IgnoreRule, is_ignored, read_ignore_rules
from .skills import SKILL_FILE, Skill, parse_skill
from .templates import PromptTemplate, parse_template

_MARKDOWN = ".md"


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


_N = TypeVar("_N", bound=_Named)
Report = Callable[[ResourceDiagnosis], None]
Search = Callable[[Source, Report], Iterable[str]]


def scan_skills(sources: Iterable[Source]) -> tuple[list[Skill], list[ResourceDiagnosis]]:
    """The skills of all sources; of equal names the first. One file reached by two ways is one skill."""
    diagnoses: list[ResourceDiagnosis] = []
    found: list[Skill] = []
    for source, path, text in _texts(sources, "skill", _walk, diagnoses.append):
        skill, problems = parse_skill(path, text, source.scope)
        diagnoses += problems
        if skill is not None:
            found.append(skill)
    kept, collisions = _first_of_each_name(found, lambda name: f'name "{name}" collision')
    return kept, diagnoses + collisions


def scan_templates(sources: Iterable[Source]) -> tuple[list[PromptTemplate], list[ResourceDiagnosis]]:
    """The templates of all sources; of equal names the first."""
    diagnoses: list[ResourceDiagnosis] = []
    found: list[PromptTemplate] = []
    for source, path, text in _texts(sources, "prompt template", _markdown_in, diagnoses.append):
        try:
            found.append(parse_template(path, text, source.scope))
        except FrontMatterError as error:
            diagnoses.append(ResourceDiagnosis("warning", str(error), path))
    kept, collisions = _first_of_each_name(found, lambda name: f'name "/{name}" collision')
    return kept, diagnoses + collisions


def _texts(sources: Iterable[Source], noun: str, search: Search, report: Report) -> Iterator[tuple[Source, str, str]]:
    """Every file of the sources with its path and text, each once, also where links lead to it again."""
    seen: set[object] = set()
    for source in sources:
        for path in _files_of(source, noun, search, report):
            if (identity := files.identity(path)) not in seen:
                seen.add(identity)
                text = files.or_tell(files.read_text, path, report)
                if text is not None:
                    yield source, path, text


def _first_of_each_name(found: Sequence[_N], told: Callable[[str], str]) -> tuple[list[_N], list[ResourceDiagnosis]]:
    winners: dict[str, _N] = {}
    collisions = []
    for resource in found:
        winner = winners.setdefault(resource.name, resource)
        if winner is not resource:
            collisions.append(ResourceDiagnosis("collision", told(resource.name), resource.path, winner.path))
    return list(winners.values()), collisions


def _files_of(source: Source, noun: str, search: Search, report: Report) -> Iterator[str]:
    try:
        kind = files.kind_at(source.path)
    except files.Unreadable as trouble:
        report(ResourceDiagnosis("unreadable", str(trouble), source.path))
        return
    if kind == "folder":
        yield from search(source, report)
    elif kind == "file" and source.path.endswith(_MARKDOWN):
        yield source.path
    elif kind is not None:
        report(ResourceDiagnosis("warning", f"{noun} path is not a markdown file", source.path))
    elif source.is_named:
        report(ResourceDiagnosis("warning", f"{noun} path does not exist", source.path))


def _markdown_in(source: Source, report: Report) -> Iterator[str]:
    for entry in files.or_tell(files.list_folder, source.path, report) or ():
        if entry.kind == "file" and entry.name.endswith(_MARKDOWN) and entry.name != _MARKDOWN:
            yield entry.path


@attrs.frozen
class _Step:
    """A file that was chosen, or a folder to enter; ``rules`` hold in it, ``below`` is its path in the walk."""

    path: str
    below: str
    is_folder: bool
    rules: tuple[IgnoreRule, ...] = ()


def _walk(source: Source, report: Report) -> Iterator[str]:
    """Skill files in the order of names. Not recursive: folders may be nested deeper than Python calls may be."""
    waiting = [_Step(source.path, "", is_folder=True)]
    entered: set[object] = set()
    while waiting:
        step = waiting.pop()
        if not step.is_folder:
            yield step.path
        # A link may lead back to a folder above.
        elif (identity := files.identity(step.path)) not in entered:
            entered.add(identity)
            waiting += reversed(_steps_in(step, source, report))


def _steps_in(step: _Step, source: Source, report: Report) -> list[_Step]:
    listed = files.or_tell(files.list_folder, step.path, report) or []
    rules = step.rules
    for name in IGNORE_FILES:
        if any(entry.name == name and entry.kind == "file" for entry in listed):
            text = files.or_tell(files.read_text, os.path.join(step.path, name), report)
            rules += tuple(read_ignore_rules(text or "", step.below))
    found = []
    for entry in listed:
        below = f"{step.below}/{entry.name}" if step.below else entry.name
        is_folder = entry.kind == "folder"
        if is_ignored(below, is_folder, rules):
            continue
        if entry.name == SKILL_FILE and not is_folder:
            return [_Step(entry.path, below, is_folder=False)]
        if entry.name.startswith(".") or entry.name == "node_modules":
            continue
        is_loose = source.has_loose_files and not step.below and entry.name.endswith(_MARKDOWN)
        if is_folder or is_loose:
            found.append(_Step(entry.path, below, is_folder, rules))
    return found
