"""As much of Git as a backup calls, over a simulated disk: branches are files, objects and index lie in memory."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterator

import attrs

from strataflow.actors import Command, Ended
from strataflow.runtime.simulation.processes import Program, SimulatedProcesses
from strataflow.runtime.simulation.seams import STORE, SimulatedMachine

BRANCH = "refs/heads/main"
# What a backup calls, in its order.
VERBS = ("ls-tree", "hash-object", "mktree", "commit-tree", "update-ref", "update-index")


@attrs.define(eq=False)
class SimulatedGit:
    """A repository around the store of a machine. ``takes``: how long a call takes, by its verb, and whether only
    SIGKILL ends it. What it keeps outlives every process."""

    machine: SimulatedMachine
    takes: dict[str, tuple[float, bool]] = attrs.field(factory=dict)
    objects: dict[str, bytes] = attrs.field(factory=dict)
    index: dict[str, str] = attrs.field(factory=dict)
    remote: str | None = None
    calls: list[str] = attrs.field(factory=list)
    is_new: bool = True
    processes: SimulatedProcesses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.processes = SimulatedProcesses(self._program)
        if not self.is_new:
            return
        disk = self.machine.disk
        for folder in ("", ".git", ".git/refs", ".git/refs/heads"):
            disk.plant(posixpath.join(STORE, folder))
        disk.plant(f"{STORE}/.git/HEAD", "file", f"ref: {BRANCH}\n".encode())
        disk.plant(f"{STORE}/.git/config", "file", b"[core]\n")

    def after_kill(self) -> SimulatedGit:
        """The repository on the twin of its machine on which every process has been killed at this moment."""
        twin = self.machine.after_kill()
        return SimulatedGit(twin, {}, dict(self.objects), dict(self.index), self.remote, is_new=False)

    @property
    def head(self) -> str | None:
        data = self.machine.disk.read(f"{STORE}/.git/{BRANCH}")
        return None if data is None else data.decode().strip()

    def files(self, commit: str | None) -> dict[str, str]:
        """The files of a commit: path to object id."""
        return {} if commit is None else dict(self._walk(self.objects[commit].split()[1].decode(), ""))

    def _walk(self, tree: str, prefix: str) -> Iterator[tuple[str, str]]:
        for line in self.objects[tree].split(b"\0"):
            if line:
                facts, name = line.decode().split("\t")
                _, kind, oid = facts.split(" ")
                if kind == "tree":
                    yield from self._walk(oid, f"{prefix}{name}/")
                else:
                    yield prefix + name, oid

    def _program(self, command: Command) -> Program:
        words = list(command.arguments[1:])
        folder = STORE
        while words[0] in ("-c", "-C"):
            folder = words[1] if words[0] == "-C" else folder
            del words[:2]
        verb = words[0]
        self.calls.append(verb)
        takes_s, ignores_term = self.takes.get(verb, (0.002, False))
        act: Callable[[list[str], bytes, str], str] = getattr(self, "_" + verb.replace("-", "_"))

        def run() -> Ended:
            try:
                answer = act(words[1:], command.stdin, folder)
            except AssertionError as error:
                return Ended(1, b"", str(error).encode())
            return Ended(
                1 if verb == "check-ignore" else 0, answer if isinstance(answer, bytes) else answer.encode(), b""
            )

        return Program(run, takes_s, ignores_term)

    def _ls_tree(self, words: list[str], _: bytes, folder: str) -> str:
        trees: dict[str, str] = {}
        files = self.files(words[-1])

        def note(tree: str, prefix: str) -> None:
            for line in filter(None, self.objects[tree].split(b"\0")):
                facts, name = line.decode().split("\t")
                if facts.split(" ")[1] == "tree":
                    trees[prefix + name] = facts.split(" ")[2]
                    note(facts.split(" ")[2], f"{prefix}{name}/")

        note(self.objects[words[-1]].split()[1].decode(), "")
        lines = [f"040000 tree {oid}\t{path}" for path, oid in trees.items()]
        return "\0".join([*lines, *(f"100644 blob {oid}\t{path}" for path, oid in files.items())])

    def _check_ignore(self, *_: object) -> str:
        return ""

    def _hash_object(self, _: list[str], stdin: bytes, folder: str) -> str:
        found = []
        for path in stdin.decode().splitlines():
            data = self.machine.disk.read(f"{folder}/{path}")
            assert data is not None
            found.append(self._keep(b"blob %d\0" % len(data) + data, data))
        return "\n".join(found)

    def _mktree(self, _: list[str], stdin: bytes, folder: str) -> str:
        found = []
        for text in stdin.split(b"\0\0")[:-1]:
            entries = []
            for line in text.split(b"\0"):
                facts, name = line.split(b"\t")
                mode, kind, oid = facts.split(b" ")
                key = name + b"/" if kind == b"tree" else name
                entries.append((key, mode.lstrip(b"0") + b" " + name + b"\0" + bytes.fromhex(oid.decode())))
            body = b"".join(entry for _, entry in sorted(entries))
            found.append(self._keep(b"tree %d\0" % len(body) + body, text))
        return "\n".join(found)

    def _commit_tree(self, words: list[str], stdin: bytes, folder: str) -> str:
        text = f"tree {words[-1]} {' '.join(words)}".encode()
        return self._keep(text + stdin, text)

    def _update_ref(self, words: list[str], _: bytes, folder: str) -> str:
        if words[0] == "-m":
            del words[:2]
        path = f"{STORE}/.git/{BRANCH}"
        if words[0] == "-d":
            assert words[2] == self.head, "another value"
            self.machine.disk.unlink(path)
            return ""
        assert (self.head or "0" * 40) == words[2], "another value"
        self.machine.disk.unlink(path)
        self.machine.disk.plant(path, "file", f"{words[1]}\n".encode())
        return ""

    def _diff_tree(self, words: list[str], _: bytes, folder: str) -> str:
        parts = self.objects[words[-1]].decode().split()
        old, new = self.files(parts[parts.index("-p") + 1] if "-p" in parts else None), self.files(words[-1])
        none = "0" * 40
        return "".join(
            f":100644 {'100644' if path in new else '000000'} {old.get(path, none)} {new.get(path, none)} M\0{path}\0"
            for path in sorted(old.keys() | new.keys())
            if old.get(path) != new.get(path)
        )

    def _update_index(self, _: list[str], stdin: bytes, folder: str) -> str:
        for line in stdin.decode().split("\0"):
            if line:
                facts, path = line.split("\t")
                mode, oid = facts.split(" ")
                self.index.pop(path, None) if int(mode, 8) == 0 else self.index.update({path: oid})
        return ""

    def _config(self, *_: object) -> str:
        return "branch.main.remote\norigin\0branch.main.merge\nrefs/heads/main\0"

    def _push(self, words: list[str], _: bytes, folder: str) -> str:
        self.remote = words[-1].partition(":")[0]
        return ""

    def _keep(self, hashed: bytes, kept: bytes) -> str:
        oid = hashlib.sha1(hashed).hexdigest()
        self.objects[oid] = kept
        return oid
