"""Rules about code that no linter on our list has. Each is a function from a source text to ``(line, text)`` pairs.

They read syntax trees, so that a word in a string or a comment is not taken for a call.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Iterator

Finding = tuple[int, str]
Rule = Callable[[str], list[Finding]]

COMMENT_LINES = 6
_OWN_SCOPE = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def dotted(node: ast.AST) -> str:
    """``trio.lowlevel.checkpoint`` for the expression of that name; ``?`` stands for what is not a name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what runs as part of it: a function defined in it runs some other time."""
    if isinstance(node, _OWN_SCOPE):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def _comments(source: str) -> dict[int, str]:
    """Line -> comment. From tokens: a ``#`` in a string is none."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def real_sleeping(source: str) -> list[Finding]:
    """A test that sleeps is slow when it passes and flaky when it does not.

    ``trio.sleep`` under a mock clock is no sleeping: the file says so by naming the clock.
    """
    found = []
    mocked = "autojump_clock" in source or "mock_clock" in source or "MockClock" in source
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "trio", "asyncio"):
            if any(alias.name.startswith("sleep") for alias in node.names):
                found.append((node.lineno, "import the module, so that sleeping can be seen where it happens"))
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            zero = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            real = name == "time.sleep" or (name == "asyncio.sleep" and not zero)
            if real or (name.startswith("trio.sleep") and not zero and not mocked and "forever" not in name):
                found.append((node.lineno, f"{name} waits for real; use a mock clock or an event"))
    return found


def swallowing_handlers(source: str) -> list[Finding]:
    """Cancellation is a BaseException: whoever catches it must pass it on.

    That is to raise again in the handler, or to keep the exception (``as error``, used) under a comment that says where
    it is raised.
    """
    comments = _comments(source)
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            caught = _caught(node)
            inside = [inner for part in node.body for inner in _inside(part)]
            raises = any(isinstance(inner, ast.Raise) for inner in inside)
            kept = any(isinstance(inner, ast.Name) and inner.id == node.name for inner in inside)
            near = range(node.lineno - COMMENT_LINES, (node.end_lineno or node.lineno) + 1)
            promised = kept and any("raise" in comments.get(line, "").lower() for line in near)
            silent = all(isinstance(part, ast.Pass | ast.Continue) or _is_ellipsis(part) for part in node.body)
            if node.type is None:
                found.append((node.lineno, "a bare except also catches cancellation; name the class"))
            elif "BaseException" in caught and not raises and not promised:
                text = "except BaseException must raise again, or keep the error and comment on where it is raised"
                found.append((node.lineno, text))
            elif "Exception" in caught and silent:
                found.append((node.lineno, "an exception is swallowed without a trace"))
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("suppress"):
            too_much = {"Exception", "BaseException"}.intersection(map(dotted, node.args))
            found += [(node.lineno, f"{name} is too much to suppress; name what is expected") for name in too_much]
    return found


def _caught(handler: ast.ExceptHandler) -> set[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {dotted(kind).removeprefix("builtins.") for kind in kinds if kind is not None}


def _is_ellipsis(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and part.value.value is ...


def unexplained_shields(source: str) -> list[Finding]:
    """A shield is a promise to be quick; the comment says what would break without it and why it ends."""
    comments = _comments(source)
    found = []
    for node in ast.walk(ast.parse(source)):
        line = 0
        if isinstance(node, ast.keyword) and node.arg == "shield" and not _is_false(node.value):
            line = node.value.lineno
        elif isinstance(node, ast.Assign) and dotted(node.targets[0]).endswith(".shield"):
            line = 0 if _is_false(node.value) else node.lineno
        if line and not comments.keys() & set(range(line - COMMENT_LINES, line + 1)):
            found.append((line, f"a shield needs its reason in a comment at most {COMMENT_LINES} lines above"))
    return found


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def awaits_in_finally(source: str) -> list[Finding]:
    """In a cancelled scope the first await of a ``finally`` raises, and the rest of the clean-up never runs."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Try | ast.TryStar):
            for part in node.finalbody:
                for line in _unshielded_awaits(part):
                    found.append((line, "an await in finally needs a shielded scope around it"))
    return found


def _unshielded_awaits(node: ast.AST) -> Iterator[int]:
    if isinstance(node, _OWN_SCOPE):
        return
    if isinstance(node, ast.With) and any(_is_shield(item.context_expr) for item in node.items):
        return
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _unshielded_awaits(child)


def _is_shield(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Call) and any(
        word.arg == "shield" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in expression.keywords
    )


def stubs(source: str) -> list[Finding]:
    """What is not done is not there: no placeholder is shipped."""
    name = "NotImplemented" + "Error"
    return [
        (node.lineno, f"{name} stands for work that is missing")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and node.id == name
    ]


def prints(source: str) -> list[Finding]:
    """A library does not write to its host's terminal, and a debugger does not stay behind."""
    return [
        (node.lineno, f"{dotted(node.func)} belongs in a surface")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and dotted(node.func) in ("print", "breakpoint", "pdb.set_trace")
    ]
