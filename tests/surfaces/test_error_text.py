"""Errors as one short line (T13)."""

from __future__ import annotations

import pytest

from kit.holds import holds
from strataflow.runtime import CallError, StoreError
from strataflow.runtime.surfaces.error_text import TEXT_CHARS_MAX, error_text, shortened


@holds("T13")
def test_white_space_collapses_and_short_texts_stay_whole() -> None:
    assert error_text(CallError("E_SHAPE", "  one\n\ttwo   three ")) == "one two three"


@holds("T13")
def test_an_error_without_a_text_becomes_a_generic_one() -> None:
    assert error_text(ValueError()) == "the call failed"


@holds("T13")
def test_causes_and_groups_are_told_once_each() -> None:
    inner = OSError("no space")
    group = ExceptionGroup("several", [inner, OSError("no space"), ValueError("bad")])
    outer = StoreError("E_DISK", "/a/b: cannot be written")
    outer.__cause__ = group
    assert error_text(outer) == "/a/b: cannot be written; no space; bad"
    outer.__cause__ = StoreError("E_DISK", "cannot be written")
    assert error_text(outer) == "/a/b: cannot be written"


def test_a_cycle_of_causes_ends_all_the_same() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert error_text(first) == "first; second"


@holds("T13", "T65")
@pytest.mark.parametrize("length", [0, 50, 219, 220, 221, 1_000, 100_000])
def test_no_text_is_longer_than_the_limit(length: int) -> None:
    assert len(shortened("x" * length)) <= TEXT_CHARS_MAX


@holds("T13")
def test_quoted_values_give_way_before_operation_and_reason() -> None:
    value = "v" * 500
    text = (
        f'patch cwd: {value[:3]} the value "{value}" at /srv/app/store/checkpoint.json cannot be stored: not plain data'
    )
    short = shortened(text)
    assert len(short) <= TEXT_CHARS_MAX
    assert short.startswith("patch cwd:")
    assert short.endswith("checkpoint.json cannot be stored: not plain data")
    assert "…" in short


def test_folders_of_long_paths_give_way_before_the_name_of_the_file() -> None:
    path = "/" + "/".join(["folder-with-a-long-name"] * 12) + "/meta.json"
    short = shortened(f"reading global: {path}: permission denied; change its mode")
    assert len(short) <= TEXT_CHARS_MAX
    assert "meta.json: permission denied; change its mode" in short
    assert short.startswith("reading global:")
