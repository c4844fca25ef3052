"""Crash states: what may be found after a stop before any change of the disk, and what must be true of each.

A *story* runs once on a simulated machine. A camera looks at the machine before every change of its disk and takes a
picture of each fate that this moment could have: the power fails and what was not synced is lost, kept, or torn in ways
that seeds choose, or every process is killed and the machine stays on. Each picture is a machine of its own, with its
ledger; two that hold the same bytes in the same files count, and are checked, once.

Then somebody *recovers* on each: opens the store, compares, goes on working, closes, reads the files strictly, lets the
doctor look. Recovering is a story too. It can be photographed itself, so that crashes strike the recovery of crashes.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import attrs

from kit.crash_ledger import Author, Ledger
from kit.simulated_look import examine
from kit.simulated_stores import LOOKS, SimulatedStore
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.layout import PI_LOCK
from strataflow.store.receipts import receipt_row

Story = Callable[[SimulatedMachine, Ledger], None]
# What a moment can lead to, with the seed of what chance decides in it.
Fate = tuple[Literal["lose", "keep", "torn", "kill"], int]

FATES: tuple[Fate, ...] = (("lose", 0), ("keep", 0), ("kill", 0), ("torn", 1))


@attrs.frozen(eq=False)
class Picture:
    """One machine as it may be found. ``label`` says how it came about."""

    machine: SimulatedMachine
    ledger: Ledger
    label: str


@attrs.define(eq=False)
class Tally:
    """The distinct crash states that were seen so far."""

    seen: set[bytes] = attrs.field(factory=set)
    checked: int = 0

    def is_new(self, machine: SimulatedMachine, fate: Fate, least: int) -> bool:
        digest = hashlib.blake2b(b"on" if fate[0] == "kill" else b"off", digest_size=12)
        for path, content in sorted(machine.disk.contents().items()):
            digest.update(b"%d %d " % (len(path), len(content)) + path.encode() + content)
        digest.update(b"%d" % least)
        if digest.digest() in self.seen:
            return False
        self.seen.add(digest.digest())
        return True


@attrs.define(eq=False)
class Camera:
    """Takes pictures before changes of a machine's disk.

    ``choose`` gives the fates to look at before the change with a number, counted from 1 in this story.
    """

    machine: SimulatedMachine
    ledger: Ledger
    tally: Tally
    choose: Callable[[int], Sequence[Fate]]
    label: str
    pictures: list[Picture] = attrs.field(factory=list)
    changes: int = 0

    def __call__(self, name: str, path: str) -> None:
        if name in LOOKS:
            return
        self.changes += 1
        for fate in self.choose(self.changes):
            mode, seed = fate
            found = self.machine.after_kill(seed) if mode == "kill" else self.machine.after_power_cut(mode, seed)
            known = self.ledger.copy()
            known.crash(is_cut=mode != "kill")
            if self.tally.is_new(found, fate, known.kept):
                label = f"{self.label}, {mode} {seed} before change {self.changes} ({name} {path})"
                self.pictures.append(Picture(found, known, label))


def photograph(
    story: Story,
    machine: SimulatedMachine,
    ledger: Ledger,
    tally: Tally,
    choose: Callable[[int], Sequence[Fate]],
    label: str,
) -> list[Picture]:
    """Run a story to its end and return the pictures that were taken on the way."""
    camera = Camera(machine, ledger, tally, choose, label)
    machine.disk.before_operation = camera
    story(machine, ledger)
    machine.disk.before_operation = None
    return camera.pictures


def every_change(*fates: Fate) -> Callable[[int], Sequence[Fate]]:
    """All these fates, at every change."""
    return lambda change: fates


def explore(story: Story, tally: Tally, *, one_of: int = 1, nested: int = 0, torn: int = 0) -> int:
    """Check the crash states of a story. Returns how many were checked.

    Args:
      one_of: check one of so many only, where there is little time.
      torn: so many more torn fates at each change.
      nested: every so many of them, the power fails or processes are killed once more at each step of the recovery.

    Raises:
      AssertionError and others: a crash state is not as it must be; a note says which.
    """
    before = tally.checked
    name = getattr(story, "__name__", "story")
    fates = every_change(*FATES, *[("torn", 2 + more) for more in range(torn)])
    for number, picture in enumerate(photograph(story, SimulatedMachine(), Ledger(), tally, fates, name)[::one_of]):
        again = nested and number % nested == nested // 2
        for second in checked(picture, tally, every_change(*((("kill", 0), ("torn", number)) if again else ()))):
            checked(second, tally)
    return tally.checked - before


def checked(
    picture: Picture, tally: Tally, choose: Callable[[int], Sequence[Fate]] = lambda change: ()
) -> list[Picture]:
    """Recover on what is found, with a disk that works again. Returns pictures that were taken during that."""
    picture.machine.disk.capacity_bytes, picture.machine.disk.is_read_only = None, False
    try:
        pictures = photograph(recover(picture), picture.machine, picture.ledger, tally, choose, picture.label)
    except BaseException as error:
        error.add_note(picture.label)
        raise
    tally.checked += 1
    return pictures


def recover(picture: Picture) -> Story:
    """What somebody does who finds this: the checks. It is the same for the same picture."""
    chance = random.Random(picture.label)

    def story(machine: SimulatedMachine, ledger: Ledger) -> None:
        if ledger.may_need_unlock:
            machine.disk.unlink(f"{machine.root}/{PI_LOCK}")
        assert not [item for item in examine(machine).findings if item.severity == "problem"]
        author = Author.join(machine, ledger, fresh_name(chance), chance.choice(("power", "process")))
        for address in [*ledger.addresses]:
            author.open_session(address.session_id, address.cwd)
        ledger.settle(author.store)
        ask_again(author)
        if chance.random() < 0.5:
            author.checkpoint()
        for number, address in enumerate(ledger.addresses):
            author.patch(address, global_={"working": {"again": number}}, session={"working": {"again": number}})
        leave_alone(machine, author)
        if chance.random() < 0.25:
            speak_for_themselves(machine, ledger, fresh_name(chance))

    return story


def ask_again(author: Author) -> None:
    """Calls with a request id are remembered exactly if they count; asking again changes nothing then."""
    for request_id, made in author.ledger.requests.items():
        known = author.store.journal.outcome_of(request_id)
        assert (known is not None) == (made is not None), request_id
        if known is not None:
            receipt = author.store.patch(request_id=request_id, global_={"working": {"twice": request_id}})
            assert receipt_row(receipt) == known
            assert author.ledger.is_at(author.store)


def leave_alone(machine: SimulatedMachine, author: Author) -> None:
    """Close the store as the last one; all of it is in the files, nothing else stays, the doctor finds nothing."""
    author.close()
    for address in author.ledger.addresses:
        author.store.files_hold_the_present(address)
    assert machine.disk.stat(author.store.ground.layout.pi_lock) is None
    assert machine.disk.list(author.store.ground.layout.private("staged")) in (None, [])
    assert machine.disk.list(author.store.ground.layout.private("open")) == []
    diagnosis = examine(machine)
    assert diagnosis.is_clean, diagnosis.lines()


def speak_for_themselves(machine: SimulatedMachine, ledger: Ledger, name: str) -> None:
    """Take the private folder away, as in a clone: the canonical files alone are the whole truth (J9)."""
    hook, machine.disk.before_operation = machine.disk.before_operation, None
    for path in private_files(machine):
        machine.disk.unlink(path)
    machine.disk.before_operation = hook
    ledger.requests.clear()
    store = SimulatedStore.open(machine, name, history_limit=2)
    for address in ledger.addresses:
        store.session(address.session_id, address.cwd)
    assert ledger.is_at(store)
    store.close()


def private_files(machine: SimulatedMachine) -> Iterator[str]:
    """The files that are nobody's business but ours."""
    return (path for path in machine.disk.contents() if path.startswith(f"{machine.root}/.strataflow/"))


def fresh_name(chance: random.Random) -> str:
    """A name that no process has had: ids are made of it."""
    return f"p{chance.getrandbits(48):x}"
