"""What must not be found in this repository: calls that hide trouble, leftovers, and words that belong elsewhere."""

from __future__ import annotations

import re

import pytest

from kit import tidy_rules
from kit.source_tree import package_modules, python_files, repository_files, text_of
from kit.tidy_rules import Rule

# Written in parts: this file is searched too.
LEFTOVERS = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")
KILL_BY_NAME = re.compile(r"\b(?:" + "|".join(["pk" + "ill", "kill" + "all"]) + r")\b")
ELSEWHERE = re.compile(
    "|".join(
        [
            r"(?<![\w.~-])/(?:wo" + r"rk|ro" + r"ot)/",  # a path of one machine
            r"(?:py" + r"pi|pythonhos" + r"ted|npm" + r"js|crates|deb" + r"ian)\.(?:org|com|io|net)\b",  # registries
            r"\bissue" + r"s? #?\d",
            r"\bsha" + r"red/(?:spec|conformance|design|platform|style|field)",
            r"\bspec/READ" + r"ME",
        ]
    ),
    re.IGNORECASE,
)
CODE = (".py", ".md", ".toml", ".sh", "Makefile", ".ci/run", ".ci/setup")


def _code_files() -> list[str]:
    """Text written by us: recorded data of tests may say whatever it was recorded with."""
    return [path for path in repository_files() if path.endswith(CODE)]


def _matches(pattern: re.Pattern[str], paths: list[str]) -> list[str]:
    found = []
    for path in paths:
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path}:{number}: {match.group()}")
    return found


def _findings(rule: Rule, paths: list[str]) -> list[str]:
    return [f"{path}:{line}: {text}" for path in paths for line, text in rule(text_of(path) or "")]


def _everywhere() -> list[str]:
    return [path for path in repository_files() if path.endswith(".py")]


def test_no_test_sleeps_for_real_time() -> None:
    assert _findings(tidy_rules.real_sleeping, list(python_files("tests"))) == []


def test_no_handler_swallows_what_it_should_pass_on() -> None:
    assert _findings(tidy_rules.swallowing_handlers, _everywhere()) == []


def test_every_shield_says_why_it_is_there() -> None:
    assert _findings(tidy_rules.unexplained_shields, _everywhere()) == []


def test_nothing_awaits_in_finally_without_a_shield() -> None:
    paths = [path for path in package_modules() if not path.startswith("store/")]
    assert _findings(tidy_rules.awaits_in_finally, paths) == []


def test_no_stub_stands_in_for_missing_work() -> None:
    assert _findings(tidy_rules.stubs, _everywhere()) == []


def test_only_the_surfaces_write_to_the_terminal() -> None:
    paths = [path for path in package_modules() if not path.startswith("runtime/surfaces/")]
    assert _findings(tidy_rules.prints, paths) == []


def test_no_marker_of_unfinished_work_is_left() -> None:
    assert _matches(LEFTOVERS, _code_files()) == []


def test_no_process_is_ended_by_its_name() -> None:
    assert _matches(KILL_BY_NAME, _code_files()) == []


def test_no_text_names_a_machine_or_a_registry() -> None:
    assert _matches(ELSEWHERE, list(repository_files())) == []


def test_no_lock_file_is_part_of_the_repository() -> None:
    assert [path for path in repository_files() if path.endswith((".lock", "package-lock.json"))] == []


def test_text_files_end_with_one_newline_and_use_unix_line_ends() -> None:
    texts = {path: text_of(path) or "" for path in _code_files()}
    assert [path for path, text in texts.items() if text and (not text.endswith("\n") or text.endswith("\n\n"))] == []
    assert [path for path, text in texts.items() if "\r" in text] == []


SHIELD = "with trio.CancelScope(shield=True):\n"
BROKEN: list[tuple[Rule, str]] = [
    (tidy_rules.real_sleeping, "import time\ntime.sleep(1)\n"),
    (tidy_rules.real_sleeping, "from time import sleep\n"),
    (tidy_rules.real_sleeping, "async def f():\n    await trio.sleep(0.1)\n"),
    (tidy_rules.real_sleeping, "async def f():\n    await asyncio.sleep(0.1)\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept:\n    raise\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept BaseException:\n    g()\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept BaseException as e:\n    errors.append(e)\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept BaseException as e:\n    g()  # never raised\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept (OSError, BaseException):\n    def g():\n        raise\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept Exception:\n    pass\n"),
    (tidy_rules.swallowing_handlers, "for x in y:\n    try:\n        f()\n    except Exception:\n        continue\n"),
    (tidy_rules.swallowing_handlers, "with contextlib.suppress(Exception):\n    f()\n"),
    (tidy_rules.unexplained_shields, SHIELD + "    pass\n"),
    (tidy_rules.unexplained_shields, "# too far away\n" + "\n" * 7 + SHIELD + "    pass\n"),
    (tidy_rules.unexplained_shields, "scope.shield = True\n"),
    (tidy_rules.unexplained_shields, "text = '# no comment'\nwith trio.move_on_after(1, shield=quick):\n    pass\n"),
    (tidy_rules.awaits_in_finally, "async def f():\n    try:\n        pass\n    finally:\n        await g()\n"),
    (
        tidy_rules.awaits_in_finally,
        "async def f():\n    try:\n        pass\n    finally:\n        with trio.move_on_after(1):\n"
        "            await g()\n",
    ),
    (
        tidy_rules.awaits_in_finally,
        "async def f():\n    try:\n        pass\n    finally:\n        async with g():\n            pass\n",
    ),
    (tidy_rules.stubs, "def f():\n    raise NotImplemented" + "Error\n"),
    (tidy_rules.prints, "print('x')\n"),
    (tidy_rules.prints, "breakpoint()\n"),
]
SOUND: list[tuple[Rule, str]] = [
    (tidy_rules.real_sleeping, "async def test(autojump_clock):\n    await trio.sleep(1)\n"),
    (tidy_rules.real_sleeping, "async def f():\n    await trio.sleep(0)\n    await trio.sleep_forever()\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n"),
    (tidy_rules.swallowing_handlers, "# Raised by the caller.\ntry:\n    f()\nexcept BaseException as e:\n    g(e)\n"),
    (tidy_rules.swallowing_handlers, "try:\n    f()\nexcept Exception as exc:\n    report(exc)\n"),
    (tidy_rules.swallowing_handlers, "with contextlib.suppress(FileNotFoundError):\n    f()\n"),
    (tidy_rules.unexplained_shields, "# It ends: one sync.\n" + SHIELD + "    pass\n"),
    (tidy_rules.unexplained_shields, "trio.CancelScope(shield=False)\n"),
    (
        tidy_rules.awaits_in_finally,
        "async def f():\n    try:\n        await g()\n    finally:\n        with trio.move_on_after(1, shield=True):\n"
        "            await g()\n",
    ),
    (tidy_rules.prints, "parser.print('x')\nfootprint()\n"),
]


@pytest.mark.parametrize("rule, source", BROKEN, ids=[f"{rule.__name__}-{n}" for n, (rule, _) in enumerate(BROKEN)])
def test_a_planted_breach_of_a_rule_is_found(rule: Rule, source: str) -> None:
    assert rule(source) != []


@pytest.mark.parametrize("rule, source", SOUND, ids=[f"{rule.__name__}-{n}" for n, (rule, _) in enumerate(SOUND)])
def test_sound_code_is_left_in_peace(rule: Rule, source: str) -> None:
    assert rule(source) == []


@pytest.mark.parametrize(
    "pattern, text",
    [
        (LEFTOVERS, "# TO" + "DO: later"),
        (KILL_BY_NAME, "run pk" + "ill python"),
        (ELSEWHERE, "cd /wo" + "rk/main"),
        (ELSEWHERE, "see /ro" + "ot/.cache"),
        (ELSEWHERE, "https://py" + "pi.org/simple"),
        (ELSEWHERE, "see issue" + " #12"),
        (ELSEWHERE, "sha" + "red/spec/host.md"),
    ],
)
def test_a_planted_word_is_found(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_words_that_only_look_alike_are_left_in_peace() -> None:
    for text in ("store/work/x", "the network/root/path", "XXXXXX.tmp", "issues a lock", "project/root"):
        assert not LEFTOVERS.search(text)
        assert not ELSEWHERE.search(text), text
