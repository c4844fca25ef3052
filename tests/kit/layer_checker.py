"""Checks imports against the table of ``layer_rules``, reading syntax trees.

It takes a tree as data (path -> source), so that a test can plant a violation without touching a file. Relative imports
are resolved. Every import statement counts, also in functions and under ``TYPE_CHECKING``: an arrow that exists for
the type checker alone is still one that a reader must follow.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping

import attrs

from kit.layer_rules import CLI, EXTRA, FACE, FILE_MODULES, ONLY_IN, RUNTIME, SURFACES_PACKAGE, Layer, layer_of


def module_name(path: str) -> str:
    """``store/algebra/x.py`` -> ``strataflow.store.algebra.x``; a package goes by its folder's name."""
    parts = path.removeprefix("src/strataflow/").removesuffix(".py").split("/")
    return ".".join(["strataflow", *(parts[:-1] if parts[-1] == "__init__" else parts)])


@attrs.define
class Report:
    """What the checker found: ``path:line: text`` for each violation, and the paths it has read."""

    violations: list[str] = attrs.field(factory=list)
    seen: set[str] = attrs.field(factory=set)


def check(tree: Mapping[str, str]) -> Report:
    """Check every module of ``tree`` against the table."""
    report = Report()
    modules = {module_name(path): path for path in tree}
    parsed = {path: ast.parse(source, path) for path, source in tree.items()}
    for path, syntax in parsed.items():
        report.seen.add(path)
        for line, text in sorted({*_imports(path, syntax, modules, parsed), *_calls(path, syntax)}):
            report.violations.append(f"{path}:{line}: {text}")
    return report


def refuse_bare_layers(path: str, source: str) -> list[str]:
    """``import store`` would find the folder by the working directory's grace. Tests and benchmarks obey this too."""
    found = []
    for node in _import_statements(ast.parse(source, path)):
        for target in _absolute_targets(node):
            if target.split(".")[0] in ("store", "actors", "runtime"):
                found.append(f"{path}:{node.lineno}: absolute import of {target}; say strataflow.{target}")
    return found


def _import_statements(syntax: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(syntax) if isinstance(node, ast.Import | ast.ImportFrom))


def _absolute_targets(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if node.level == 0 else []


def _imports(
    path: str, syntax: ast.Module, modules: Mapping[str, str], parsed: Mapping[str, ast.Module]
) -> Iterator[tuple[int, str]]:
    layer = layer_of(path)
    for node in _import_statements(syntax):
        for target in _absolute_targets(node):
            for text in _outside(path, layer, target):
                yield node.lineno, text
        if isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in layer.never_uses:
                    yield node.lineno, f"{layer.name} must not use {node.module}.{alias.name}"
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield node.lineno, "a star hides which names cross the border"
        elif isinstance(node, ast.ImportFrom) and node.level:
            for target in _relative_targets(path, node, modules, parsed):
                if not _may_use(path, layer, target):
                    yield node.lineno, f"{layer.name} must not import {target}"


def _relative_targets(
    path: str, node: ast.ImportFrom, modules: Mapping[str, str], parsed: Mapping[str, ast.Module]
) -> Iterator[str]:
    """The modules that ``from ..x import a, b`` reaches: ``x`` itself, or ``x.a`` where that is a module."""
    package = module_name(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]
    base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        is_package = inner in modules or any(name.startswith(inner + ".") for name in modules)
        # A door may offer a function under the name of the module it comes from; then the function is meant.
        offered = base in modules and _offers(parsed[modules[base]], alias.name)
        yield inner if is_package and not offered else base


def _offers(door: ast.Module, name: str) -> bool:
    for node in door.body:
        if isinstance(node, ast.ImportFrom) and node.module and any((a.asname or a.name) == name for a in node.names):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
    return False


def _may_use(path: str, layer: Layer, target: str) -> bool:
    if layer is FACE:
        # The console script's module is reached from __main__, the one user of a surface.
        allowed = layer.doors | ({CLI} if path.endswith("/__main__.py") else frozenset())
        return target in allowed or target == "strataflow" or target.count(".") == 1
    if layer is RUNTIME and (target + ".").startswith(f"{SURFACES_PACKAGE}."):
        return False
    return target in layer.doors or any((target + ".").startswith(f"{inner}.") for inner in layer.inner)


def _outside(path: str, layer: Layer, target: str) -> Iterator[str]:
    top = target.split(".")[0]
    places = ONLY_IN.get(top)
    if top == "strataflow" or top in ("store", "actors", "runtime"):
        yield f"absolute import of {target}; imports inside the package are relative"
    elif (top == "sqlite3" and path.startswith("store/journal")) or top in EXTRA.get(path, ()):
        return
    elif places is not None and path not in places:
        yield f"{top} belongs in {' and '.join(places)}"
    elif top in layer.refused:
        yield f"{layer.name} must not import {top}"
    elif top in sys.stdlib_module_names:
        if layer.stdlib is not None and top not in layer.stdlib:
            yield f"{layer.name} must not import {top}: only the pure part of the standard library"
    elif top not in layer.third_party or target in layer.never_uses:
        yield f"{layer.name} must not import {target}"


def _calls(path: str, syntax: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that reach the world without an import of their own: builtins, and attributes of allowed modules."""
    layer = layer_of(path)
    for node in ast.walk(syntax):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name == "__import__" or (name in layer.never_uses and path not in FILE_MODULES):
                yield node.lineno, f"{layer.name} must not call {name}"
        elif isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            if dotted.endswith("importlib.import_module"):
                yield node.lineno, "imports are statements, so that this check can see them"
            for banned in layer.never_uses:
                if "." in banned and (dotted == banned or dotted.endswith("." + banned)):
                    yield node.lineno, f"{layer.name} must not use {banned}"


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
