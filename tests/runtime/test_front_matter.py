"""Fields before the text of a Markdown file."""

from __future__ import annotations

from typing import Any

import pytest

from kit.pi_cases import case_id, cases
from strataflow.runtime.resources.front_matter import FrontMatter, FrontMatterError, read_front_matter


@pytest.mark.parametrize("case", cases("frontmatter"), ids=case_id)
def test_fields_and_body_are_those_of_the_original(case: dict[str, Any]) -> None:
    if "error" in case["result"]:
        with pytest.raises(FrontMatterError):
            read_front_matter(case["content"])
    else:
        expected = FrontMatter(case["result"]["frontmatter"], case["result"]["body"])
        assert read_front_matter(case["content"]) == expected


@pytest.mark.parametrize(
    "written, value",
    [
        ("true", True),
        ("yes", "yes"),
        ("on", "on"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("-1.5e3", -1500.0),
        ("", None),
        ("~", None),
        ("'true'", "true"),
        ("<<", "<<"),
    ],
)
def test_values_are_read_as_yaml_of_today(written: str, value: object) -> None:
    read = read_front_matter(f"---\na: {written}\n---\n").fields["a"]
    assert (type(read), read) == (type(value), value)


def test_keys_are_always_plain_text() -> None:
    assert read_front_matter("---\n1: a\ntrue: b\n<<: c\n---").fields == {"1": "a", "true": "b", "<<": "c"}


@pytest.mark.parametrize(
    "fields",
    [
        "a: 1\na: 2",
        "? [a]\n: 1",
        "a: !!python/object/apply:os.getcwd []",
        "a: &x [*x, *y]",
        "[" * 5000,
        "a: " + "9" * 5000,
        "a: \x01",
        "a: 1\n...\nb: 2",
        "!!map [a]",
    ],
)
def test_bad_fields_are_an_error_of_their_own(fields: str) -> None:
    with pytest.raises(FrontMatterError):
        read_front_matter(f"---\n{fields}\n---\nbody")


def test_fields_that_are_no_mapping_count_as_none() -> None:
    assert read_front_matter("---\n- a\n- b\n---\nbody") == FrontMatter({}, "body")
    assert read_front_matter("---\njust text\n---\nbody") == FrontMatter({}, "body")
