"""Examples in the documentation are run, so that they stay true."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.doc_examples import Example, commands, examples, run
from kit.source_tree import ROOT


def _pages() -> list[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(page.relative_to(ROOT).as_posix() for page in pages if page.is_file())


def _pages_with_examples() -> list[str]:
    return [page for page in _pages() if examples(page, (ROOT / page).read_text(encoding="utf-8"))]


@pytest.mark.slow
@pytest.mark.parametrize("page", _pages_with_examples())
def test_every_example_of_a_page_runs_in_order(page: str, tmp_path: Path) -> None:
    for example in examples(page, (ROOT / page).read_text(encoding="utf-8")):
        run(example, tmp_path)


PAGE = """\
Text with ```inline``` marks.

```python run
x = 1
```

```python
this is not run
```

- in a list:

  ```console run
  $ echo one \\
  > two
  one two
  ```

````md
```sh run
inside another block: shown, not run
```
````

~~~sh run
true
~~~

```toml file=a.toml
a = 1
```

```console run fails
$ false
```
"""


def test_blocks_that_say_run_are_found_with_their_lines() -> None:
    assert examples("page.md", PAGE) == [
        Example("page.md", 3, "python", "x = 1\n"),
        Example("page.md", 13, "console", "$ echo one \\\n> two\none two\n"),
        Example("page.md", 25, "sh", "true\n"),
        Example("page.md", 29, "toml", "a = 1\n", file="a.toml"),
        Example("page.md", 33, "console", "$ false\n", fails=True),
    ]
    assert commands("$ echo one \\\n> two\none two\n") == "echo one \\\ntwo\n"


def test_a_block_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"page.md:1: 'rust' blocks"):
        examples("page.md", "```rust run\n```\n")
    with pytest.raises(ValueError, match=r"page.md:2: the block is not closed"):
        examples("page.md", "\n```sh run\ntrue\n")


@pytest.mark.parametrize(
    "language, text",
    [
        ("python", "raise SystemExit(3)\n"),
        ("python", "import warnings\nwarnings.warn('old')\n"),
        ("sh", "false\ntrue\n"),
        ("console", "$ false\n"),
        ("console", "nothing to run\n"),
    ],
)
def test_an_example_that_fails_is_named_with_its_line(language: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page.md:7"):
        run(Example("page.md", 7, language, text), tmp_path)


def test_an_example_that_is_to_fail_must_fail(tmp_path: Path) -> None:
    run(Example("page.md", 7, "sh", "exit 1\n", fails=True), tmp_path)
    for text in ("true\n", "exit 2\n"):
        with pytest.raises(AssertionError, match=r"page.md:7"):
            run(Example("page.md", 7, "sh", text, fails=True), tmp_path)


def test_a_block_that_is_a_file_is_there_for_later_ones(tmp_path: Path) -> None:
    run(Example("page.md", 1, "toml", "a = 1\n", file="a.toml"), tmp_path)
    run(Example("page.md", 5, "console", "$ grep -q 'a = 1' a.toml\n"), tmp_path)


def test_examples_of_one_page_share_a_home_of_their_own(tmp_path: Path) -> None:
    run(Example("page.md", 1, "sh", "echo kept > ~/note\n"), tmp_path)
    run(Example("page.md", 5, "python", "import strataflow\nassert open('note').read() == 'kept\\n'\n"), tmp_path)
    run(Example("page.md", 9, "console", '$ test "$STRATAFLOW_DIR" = "$PWD/memory"\n'), tmp_path)
