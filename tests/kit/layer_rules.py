"""Who may import what: the table. ``layer_checker`` reads it, ``tests/meta/test_layering.py`` enforces it.

::

    src/strataflow   the face: doors of the three layers
    runtime/surfaces the doors of runtime, simulator, agent and resources (parse, call, print)
    runtime          doors of store and actors     (assembly)
    runtime/resources its pure modules, and runtime/resources/compaction, are pure and may serve the agent's step
    actors           the store's doors             (trio begins here; no files, no processes)
    store            itself                        (no event loop, no clock)
    store/projection, store/artifacts, store/backup, store/algebra  (pure)
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

# Standard library without I/O, clock, randomness or process state. A new name here needs a look at what it can do.
PURE_STDLIB = frozenset(
    "__future__ abc array base64 binascii bisect collections contextlib copy dataclasses datetime decimal difflib enum "
    "fnmatch fractions functools graphlib hashlib heapq html itertools json keyword math numbers operator posixpath "
    "re reprlib statistics string struct textwrap types typing unicodedata zlib".split()
)
CLOCKS_AND_CHANCE = frozenset("time random secrets uuid".split())
WORLD = frozenset(
    "asyncio ctypes fcntl glob io mmap multiprocessing os pathlib pty resource select selectors shutil signal socket "
    "sqlite3 subprocess tempfile".split()
)
FILE_MODULES = ("store/disk.py", "store/disk_parts.py", "store/lock.py")


@attrs.frozen
class Layer:
    """One row of the table.

    ``doors`` are packages of which only the door may be used, ``inner`` packages may be used module by module.
    ``stdlib`` is an allow list (None: everything but ``refused``). ``third_party`` holds import names, not names of
    distributions. ``never_uses`` holds builtins (``open``) and attributes (``trio.run``).
    """

    name: str
    doors: frozenset[str]
    inner: frozenset[str]
    third_party: frozenset[str]
    refused: frozenset[str] = frozenset()
    stdlib: frozenset[str] | None = None
    never_uses: frozenset[str] = frozenset()


_NOW = frozenset({"datetime.now", "datetime.utcnow", "datetime.today", "date.today"})
_TRIO_WORLD = frozenset(
    f"trio.{name}"
    for name in "Path open_file wrap_file run_process lowlevel.open_process socket open_tcp_stream open_tcp_listeners "
    "open_unix_socket open_signal_receiver open_ssl_over_tcp_stream serve_tcp run".split()
)
_STORE = "strataflow.store"
# The store layer has more doors, of its pure parts and of session trees: one list of names would be too long to read.
_STORE_DOORS = frozenset(
    {_STORE, *(f"{_STORE}.{part}" for part in "artifacts backup projection repository trace".split())}
)
_ACTORS = "strataflow.actors"
_RUNTIME = "strataflow.runtime"
_SIMULATION = f"{_RUNTIME}.simulation"
SURFACES_PACKAGE = "strataflow.runtime.surfaces"
CLI = f"{SURFACES_PACKAGE}.cli"


def _pure(name: str, doors: frozenset[str], inner: frozenset[str]) -> Layer:
    calls = frozenset({"open", "input"}) | _NOW
    return Layer(name, doors, inner, frozenset({"attrs"}), stdlib=PURE_STDLIB, never_uses=calls)


ALGEBRA = _pure("algebra", frozenset(), frozenset({f"{_STORE}.algebra"}))
ARTIFACTS = _pure("artifacts", frozenset(), frozenset({f"{_STORE}.algebra", f"{_STORE}.artifacts"}))
PROJECTION = _pure(
    "projection", frozenset({f"{_STORE}.artifacts"}), frozenset({f"{_STORE}.algebra", f"{_STORE}.projection"})
)
BACKUP = _pure("backup", frozenset(), frozenset({f"{_STORE}.algebra", f"{_STORE}.backup"}))
STORE = Layer(
    "store",
    frozenset(),
    frozenset({_STORE}),
    frozenset({"attrs", "cattrs", "orjson"}),
    refused=CLOCKS_AND_CHANCE | WORLD,
    never_uses=frozenset({"open", "input"}) | _NOW,
)
# What the agent's step may use: messages, and the pure parts of resources and compaction.
_FOR_DECISIONS = frozenset({f"{_RUNTIME}.agent", f"{_RUNTIME}.resources"})
DECISION = _pure("pure decision", _STORE_DOORS, _FOR_DECISIONS | {_ACTORS})
PURE_RESOURCES = _pure("pure resources", _STORE_DOORS, _FOR_DECISIONS)
ACTORS = Layer(
    "actors",
    _STORE_DOORS,
    frozenset({_ACTORS}),
    frozenset({"trio", "attrs", "trio_util"}),
    refused=CLOCKS_AND_CHANCE | WORLD,
    never_uses=frozenset({"open", "input"}) | _NOW | _TRIO_WORLD,
)
RUNTIME = Layer(
    "runtime",
    _STORE_DOORS | {_ACTORS},
    frozenset({_RUNTIME}),
    frozenset({"trio", "attrs", "yaml"}),
    refused=frozenset({"sqlite3"}),
)
SURFACES = Layer(
    "surfaces",
    frozenset({_RUNTIME, _SIMULATION, f"{_RUNTIME}.agent", f"{_RUNTIME}.resources"}),
    frozenset({SURFACES_PACKAGE}),
    frozenset({"trio", "attrs"}),
    refused=frozenset({"sqlite3"}),
)
# What is asked of models and what they say: bytes and dicts, decided without a loop, a clock or a network.
MODEL_FORMATS = _pure("model formats", _STORE_DOORS, frozenset({f"{_RUNTIME}.models", f"{_RUNTIME}.agent"}))
FACE = Layer(
    "face",
    _STORE_DOORS
    | {_ACTORS, _RUNTIME, _SIMULATION}
    | {f"{_RUNTIME}.{name}" for name in "aio continuation agent resources resources.compaction".split()},
    frozenset(),
    frozenset({"trio", "attrs"}),
    refused=frozenset({"sqlite3"}),
)

# Single modules that differ from their folder's row.
DECISIONS = frozenset(
    "actors/supervision.py runtime/agent/step.py runtime/agent/step_tools.py runtime/agent/step_types.py "
    "runtime/agent/recording.py runtime/agent/failed_answers.py".split()
)
# The pure modules of a folder that also has others, and the others of a folder that is pure.
PURE_OF_RESOURCES = frozenset(
    f"runtime/resources/{name}.py" for name in "converting diagnoses ignoring skills system_prompt templates".split()
)
COMPACTION_IN_THE_WORLD = frozenset(
    f"runtime/resources/compaction/{name}.py" for name in "navigating ports running".split()
)
NAMED_MODULES = DECISIONS | PURE_OF_RESOURCES | COMPACTION_IN_THE_WORLD
MODEL_SHELLS = frozenset(f"runtime/models/{name}.py" for name in ("__init__", "client", "http_call", "table"))
EXTRA: Mapping[str, frozenset[str]] = {
    **{path: frozenset("fcntl io os pathlib shutil".split()) for path in FILE_MODULES},
    # One call, in a forked child: SQLite's connection of the parent must not even be closed.
    "store/journal_connection.py": frozenset({"ctypes"}),
    # The peer of the benchmarks is SQLite as another program would use it; it knows nothing of our journal.
    "runtime/benchmark/peer.py": frozenset({"sqlite3"}),
    # An extra: the one place that asks over the network, and the one that opens the connections.
    "runtime/models/http_call.py": frozenset({"httpx"}),
    "runtime/models/client.py": frozenset({"httpx"}),
    "runtime/benchmark/streams.py": frozenset({"httpx"}),
    # It is a part of pytest where there is pytest; nobody else imports it.
    "src/strataflow/pytest_plugin.py": frozenset({"pytest"}),
    "runtime/agent/arguments.py": frozenset({"jsonschema", "referencing"}),
}
ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "orjson": ("store/codec.py",),
    "trio_util": ("actors/_trio_util.py",),
    "yaml": ("runtime/resources/front_matter.py",),
}


def layer_of(path: str) -> Layer:
    if path in DECISIONS:
        return DECISION
    if path in PURE_OF_RESOURCES:
        return PURE_RESOURCES
    if path in COMPACTION_IN_THE_WORLD:
        return RUNTIME
    if path.startswith("runtime/models/") and path not in MODEL_SHELLS:
        return MODEL_FORMATS
    for prefix, layer in (
        ("store/algebra/", ALGEBRA),
        ("store/artifacts/", ARTIFACTS),
        ("store/projection/", PROJECTION),
        ("store/backup/", BACKUP),
        ("store/", STORE),
        ("actors/", ACTORS),
        ("runtime/surfaces/", SURFACES),
        ("runtime/resources/compaction/", PURE_RESOURCES),
        ("runtime/", RUNTIME),
        ("src/strataflow/", FACE),
    ):
        if path.startswith(prefix):
            return layer
    raise ValueError(f"{path} belongs to no layer")
