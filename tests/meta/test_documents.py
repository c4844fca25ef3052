"""The documents say what is: links lead somewhere, and every name a reader could look up is there, under that name."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
from collections import defaultdict

import attrs
import pytest

import strataflow
from kit.documents import anchors, code_words, links, pages, quantities, rows, sections, tree_paths
from kit.source_tree import ROOT, package_modules, read, repository_files
from strataflow.runtime.surfaces import cli
from strataflow.store import ConfigError, StrataflowError, settings_from

ROOMS = ("tutorial", "how-to", "reference", "explanation", "design")
# Pages for builders, which come and go with the program that writes them.
WRITTEN_BY_PROGRAMS = {"docs/acceptance.md", "docs/explanation/performance.md"}
API_PAGE = "docs/reference/python-api.md"
ERRORS_PAGE = "docs/reference/errors.md"
CLI_PAGE = "docs/reference/cli.md"
LIMITS_PAGE = "docs/reference/limits.md"
CONFIG_PAGE = "docs/reference/configuration.md"


# -- links --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_to_a_file_and_heading(page: str) -> None:
    for link in links(page):
        assert (ROOT / link.path).exists(), f"{page}: no file {link.path}"
        if link.anchor:
            assert link.anchor in anchors(link.path), f"{page}: no heading #{link.anchor} in {link.path}"


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    seen, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.endswith(".md"):
            seen.add(page)
            waiting += [link.path for link in links(page)]
    missed = {page for page in pages() if page.startswith("docs/")} - seen
    assert missed <= WRITTEN_BY_PROGRAMS


def test_every_page_of_the_docs_stands_in_one_of_the_rooms() -> None:
    lonely = [page for page in pages() if page.startswith("docs/") and page.split("/")[1] not in ROOMS]
    assert set(lonely) - WRITTEN_BY_PROGRAMS == {"docs/README.md"}


# -- the tree -------------------------------------------------------------------------------------------------------


def test_the_tree_of_the_architecture_page_is_the_tree() -> None:
    block = re.search(r"^## The tree\n+```text\n(.*?)^```", read("ARCHITECTURE.md"), re.MULTILINE | re.DOTALL)
    assert block is not None
    drawn = tree_paths(block[1])
    assert [path for path in drawn if not (ROOT / path).is_dir()] == []
    folders = {"/".join(path.split("/")[:2][: path.count("/")]) + "/" for path in repository_files() if "/" in path}
    assert folders - set(drawn) == set()


def test_every_module_that_a_page_for_builders_names_exists() -> None:
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", *(page for page in pages() if page.startswith("docs/"))):
        named = [word for word in code_words(read(page)) if re.fullmatch(r"(store|actors|runtime|tests)/[\w/.]+", word)]
        assert [word for word in named if not (ROOT / word).exists()] == [], page


# -- errors, configuration, limits ------------------------------------------------------------------------------------


def test_every_code_stands_in_the_section_of_its_error_class() -> None:
    found = {title.split(":")[0]: text for title, text in sections(ERRORS_PAGE).items()}
    kinds = StrataflowError.__subclasses__()
    assert {kind.__name__ for kind in kinds} <= found.keys()
    for kind in kinds:
        written = {word for word in code_words(found[kind.__name__]) if re.fullmatch(r"E_[A-Z_]+", word)}
        assert written == kind.codes, kind.__name__


def test_every_key_of_the_settings_is_documented_and_no_other() -> None:
    constants = {
        node.value for node in ast.walk(ast.parse(read("store/settings.py"))) if isinstance(node, ast.Constant)
    }
    known = {text for text in constants if isinstance(text, str) and _is_key(text)}
    table = sections(CONFIG_PAGE)["The store's config.json"]
    assert {row[0].strip("`") for row in rows(table)[1:]} == known


def _is_key(text: str) -> bool:
    for value in (True, "active", 7):
        try:
            settings_from("config.json", json.dumps({text: value}).encode())
        except ConfigError:
            continue
        return True
    return False


def test_every_number_of_the_limits_page_is_the_one_in_the_code() -> None:
    values = _constants()
    table = [row for row in rows(read(LIMITS_PAGE)) if row[-1].startswith("`")]
    assert len(table) > 20
    for _, number, names in table:
        for name in code_words(names):
            assert values[name] <= quantities(number), f"{name}: {number} is not {values[name]}"


def _constants() -> dict[str, set[float]]:
    found: dict[str, set[float]] = defaultdict(set)
    for path in package_modules():
        name = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        if path.startswith(("src/", "runtime/benchmark")):
            continue
        for constant, value in vars(importlib.import_module(f"strataflow.{name}")).items():
            if constant.isupper() and not constant.startswith("_") and type(value) in (int, float):
                found[constant].add(value)
    return found


# -- the command line -------------------------------------------------------------------------------------------------


def _commands() -> dict[str, argparse.ArgumentParser]:
    parser = cli._parser("")
    action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    # A command without a help text serves our own processes and is shown to nobody.
    shown = {choice.dest for choice in action._choices_actions}
    return {name: command for name, command in action.choices.items() if name in shown}


@pytest.mark.parametrize("command", sorted(_commands()))
def test_every_command_and_option_is_in_the_reference(command: str) -> None:
    text = sections(CLI_PAGE)[f"strataflow {command}"]
    actions = [action for action in _actions(_commands()[command]) if action.dest != "help"]
    options = {option for action in actions for option in action.option_strings if option.startswith("--")}
    shared = _shared_options(text)
    written = {row[0].strip("`").split()[0] for row in rows(text) if row[0].startswith("`--")} | shared
    assert written == options
    for action in actions:
        if not action.option_strings and action.nargs != argparse.PARSER:
            assert (action.metavar or action.dest) in text, f"{command}: argument {action.dest} is not described"


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a command and of the actions that it consists of."""
    found: list[argparse.Action] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [each for below in action.choices.values() for each in _actions(below)]
        else:
            found.append(action)
    return found


def _shared_options(text: str) -> set[str]:
    """The options of the groups that a command's section refers to, as ``[place](#place-options)``."""
    found: set[str] = set()
    for title, group in sections(CLI_PAGE).items():
        if title.endswith(" options") and f"(#{title.lower().replace(' ', '-')})" in text:
            found |= {row[0].strip("`").split()[0] for row in rows(group) if row[0].startswith("`--")}
    return found


def test_the_reference_has_no_command_that_does_not_exist() -> None:
    titles = [title for title in sections(CLI_PAGE) if title.startswith("strataflow ")]
    assert {title.removeprefix("strataflow ") for title in titles} == _commands().keys()


# -- the Python interface --------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_python_reference() -> None:
    words = " ".join(code_words(read(API_PAGE)))
    assert [name for name in strataflow.__all__ if not re.search(rf"(?<!\w){name}(?!\w)", words)] == []


@pytest.mark.parametrize(
    "name",
    "Runtime Session Receipt ReadResult CloseReport CheckpointReport RuntimeEvent Settings MissingDeletion "
    "Transaction Conflict ChangedBy Watch Change LogEntry SessionTree".split(),
)
def test_every_public_member_is_in_the_python_reference(name: str) -> None:
    words = " ".join(code_words(read(API_PAGE)))
    kind = getattr(strataflow, name)
    kinds = [each for each in kind.__mro__ if each.__module__.startswith("strataflow")]
    members = {member for each in kinds for member in vars(each) if not member.startswith("_")}
    if attrs.has(kind):
        members |= {field.name for field in attrs.fields(kind) if not field.name.startswith("_")}
    # These serve the handles of sessions.
    members -= (
        {"close_session", "check", "hub", "log_for", "desk", "prompts", "fork_session"} if name == "Runtime" else set()
    )
    assert [member for member in sorted(members) if not re.search(rf"(?<!\w){member}(?!\w)", words)] == []


@pytest.mark.parametrize("name", ["Runtime", "Session"])
def test_signatures_in_the_python_reference_are_those_of_the_code(name: str) -> None:
    kind = getattr(strataflow, name)
    calls = [row[0].strip("`") for row in rows(sections(API_PAGE)[name]) if "(" in row[0]]
    assert len(calls) > 3
    for call in calls:
        method, given = re.fullmatch(r"(?:await )?(\w+)\((.*)\)", call).groups()  # type: ignore[union-attr]
        if given != "…":
            assert given == _parameters(getattr(kind, method), skip=1), method


def test_the_opening_of_a_store_is_documented_with_its_parameters() -> None:
    heading = re.search(r"^### `open_runtime\((.*)\)`", read(API_PAGE), re.MULTILINE)
    assert heading is not None
    assert heading[1] == _parameters(strataflow.open_runtime, skip=0)


def _parameters(function: object, *, skip: int) -> str:
    assert callable(function)
    shown, is_keyword_only = [], False
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            shown.append("*")
        default = "" if parameter.default is parameter.empty else f"={_json_like(parameter.default)}"
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        shown.append(stars + parameter.name + default)
    return ", ".join(shown)


def _json_like(value: object) -> str:
    """A default as the page writes it: strings in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
