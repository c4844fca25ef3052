"""Plants defects in the product for the length of a ``with`` block: other code in the place of a few lines of ours.

A defect is an edit of the source text of one function: what stands there, once, and what stands there instead. The
function gets the code of the edited text and keeps its identity, so that whoever has imported or stored it runs the
defect too, and afterwards the old code again. When the product changes such that a text is not found any more, planting
fails: a defect that is not there must not count as found.

What lost: wrappers around methods, which can add to what is done but not leave out a line of it; switches in the
product.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any

import attrs


@attrs.frozen
class Edit:
    """Other code for one function. ``where``: its name below the package, ``store.renames:carry_out``."""

    where: str
    old: str
    new: str = ""


def function_of(where: str) -> FunctionType:
    """The function with this name; of a method that was decorated, what was decorated."""
    module, _, names = where.partition(":")
    found: Any = importlib.import_module(f"strataflow.{module}")
    for name in names.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType), where
    return found


def edited(function: FunctionType, edits: Iterable[Edit]) -> CodeType:
    """The code of the function after some edits of its text."""
    text = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        count = text.count(edit.old)
        assert count == 1, f"{edit.where}: the text to be replaced is there {count} times, not once: {edit.old!r}"
        text = text.replace(edit.old, edit.new)
    tree = ast.parse(text)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    # The function has its decorators and defaults already.
    definition.decorator_list = []
    definition.args.defaults = [ast.Constant(None) for _ in definition.args.defaults]
    definition.args.kw_defaults = [found and ast.Constant(None) for found in definition.args.kw_defaults]
    ast.fix_missing_locations(tree)
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    flags = __future__.annotations.compiler_flag
    made: dict[str, Any] = {}
    exec(compile(tree, function.__code__.co_filename, "exec", flags=flags, dont_inherit=True), made)
    code: CodeType = made[definition.name].__code__
    assert code.co_freevars == function.__code__.co_freevars == (), "a function with a closure can not be edited"
    return code


@contextmanager
def planted(edits: Iterable[Edit]) -> Iterator[None]:
    """The product with these edits, for the body."""
    by_place: dict[str, list[Edit]] = {}
    for edit in edits:
        by_place.setdefault(edit.where, []).append(edit)
    with ExitStack() as stack:
        for where, some in by_place.items():
            function = function_of(where)
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = edited(function, some)
        yield
