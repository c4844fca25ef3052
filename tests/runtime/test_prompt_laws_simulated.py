"""Goal: over the real runtime too a prompt continues the one before or names a legal reason, and tells memory exactly.

Method: random conversations of patches, foreign writes of the same and of another process, reads, user turns, answers,
modes, restarts of the session, compactions of the host and lost results, on a simulated disk under a MockClock. After
each request a reader who knows nothing but its messages must hold the true projected state, and its bytes must begin
with those of the request before except the closing bracket, or the ledger names a reason that fits what has happened.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.hand_stores import CWD
from kit.holds import holds
from kit.prompt_reader import PromptReader
from kit.prompt_steps import FOREIGN, PATCHES, projected_state
from kit.simulated_runtimes import run_seeded, simulated
from kit.simulated_talks import SimulatedTalk
from strataflow.runtime import CallError, Session
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store.algebra import same

Json = dict[str, Any]

# How long it may take until a request shows what another process has committed, and some more.
_FOLLOWED_S = 0.25
STEPS = st.one_of(
    st.tuples(st.just("patch"), PATCHES),
    st.tuples(st.just("patch"), PATCHES),
    st.tuples(st.just("lost"), PATCHES),
    st.tuples(st.sampled_from(["beside", "far"]), FOREIGN),
    st.tuples(st.sampled_from(["beside", "far"]), FOREIGN),
    st.tuples(st.just("read"), st.sampled_from(["effective", "cwd.working", "session[0].lazy", "global"])),
    st.tuples(st.just("request"), st.none()),
    st.tuples(st.just("request"), st.none()),
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant", "custom"])),
    st.tuples(st.just("run"), st.tuples(st.sampled_from(["", "do", "again"]), st.booleans())),
    st.tuples(st.just("answer"), st.sampled_from(["", "done", "other"])),
    st.tuples(st.just("turn"), st.sampled_from(["", "done", "other"])),
    st.tuples(st.just("mode"), st.sampled_from(["active", "passive", "off"])),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("compaction"), st.tuples(st.integers(0, 2), st.booleans())),
    st.tuples(st.just("wait"), st.sampled_from([0.05, 0.2, 5.0])),
)
# Which reasons for a new projection each step can give to the next request.
REASONS: dict[str, set[str]] = {
    "run": {"run"},
    "answer": {"answer"},
    "turn": {"answer"},
    "mode": {"mode"},
    "reopen": {"session"},
    "compaction": {"compaction", "native"},
}


@attrs.define(eq=False)
class Law:
    """The conversation, those who write beside it, and what was sent."""

    talk: SimulatedTalk
    beside: Session
    far: Session
    happened: set[str] = attrs.field(factory=lambda: {"reopen"})
    last: bytes | None = None

    async def step(self, kind: str, value: Any) -> None:
        talk = self.talk
        if kind == "request":
            await self.check()
            return
        self.happened.add(kind)
        if kind in ("patch", "lost", "read"):
            handoff = talk.session._cell.context.handoff
            if handoff is not None and not handoff.is_unfinished:
                await talk.say("user", "a model acts when it is asked; what comes before the first question is hidden")
            arguments = {"path": value} if kind == "read" else value
            name = "read_state" if kind == "read" else "patch_state"
            await talk.call(name, arguments, is_lost=kind == "lost")
        elif kind in ("beside", "far"):
            scopes = {{"global": "global_"}.get(name, name): patch for name, patch in value.items()}
            try:
                await (self.beside if kind == "beside" else self.far).patch_state(**scopes)
            except CallError:
                return
        elif kind == "say":
            await talk.say(value, "said")
        elif kind == "run":
            await talk.begin_run(value[0], has_anchor=value[1])
        elif kind == "answer":
            await talk.answer(value)
        elif kind == "turn":
            await self.step("run", ("turn", True))
            await self.check()
            await self.step("patch", {"session": {"working": {"turn": talk.calls}}})
            await self.check()
            self.happened.add("turn")
            await talk.answer(value)
        elif kind == "mode":
            await talk.session.set_mode(value)
        elif kind == "reopen":
            await talk.reopen()
            self.last = None
        elif kind == "compaction":
            talk.drop(value[0], is_told=value[1])
        else:
            await trio.sleep(value)

    async def check(self) -> None:
        talk, session = self.talk, self.talk.session
        messages = await talk.request()
        truth = session._cell.scopes()
        sent = json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()
        report = session.prefix_report()
        if self.last is not None:
            assert report is not None
            extends = sent.startswith(self.last[:-1])
            assert report.is_explained, str(report)
            assert (report.departure is None) == extends, str(report)
            if report.rebase is not None:
                legal = set().union(*(REASONS.get(kind, set()) for kind in self.happened))
                assert report.rebase in legal, (report.rebase, self.happened)
            else:
                assert extends
        self.last = sent
        self.happened = set()
        if session.mode == "off":
            assert messages == talk.native
            return
        assert truth is not None
        true = projected_state(truth, session.mode)
        reader = PromptReader.of(messages)
        assert same(reader.state, true), (reader.state, true)

    async def check_far(self) -> None:
        """After a while a request shows what was written by another process."""
        await trio.sleep(_FOLLOWED_S)
        await self.check()
        if self.talk.session.mode == "off":
            return
        mine, theirs = self.talk.session._cell.scopes(), self.far._cell.scopes()
        await self.far.read_state("global", fresh=True)
        theirs = self.far._cell.scopes()
        assert mine is not None
        assert theirs is not None
        for name in ("global", "cwd"):
            assert same(mine[name].value, theirs[name].value)  # type: ignore[index]


@holds("C10", "C11", "C17", "C18", "C19", "T24", "T30", "T31", "case agent 105", "case agent 107", "case agent 110")
@settings(max_examples=60, deadline=None, print_blob=True)
@given(st.lists(STEPS, min_size=10, max_size=40), st.sampled_from(["active", "passive"]), st.integers(0, 2**16))
def test_a_reader_of_a_real_sessions_prompt_holds_the_true_state(steps: list[Any], mode: Any, seed: int) -> None:
    async def body() -> None:
        machine = SimulatedMachine(seed)
        async with simulated(machine, "ours") as runtime, simulated(machine, "theirs") as elsewhere:
            beside = await runtime.open_session(CWD, "beside", "passive")
            far = await elsewhere.open_session(CWD, "far", "passive")
            law = Law(await SimulatedTalk.begin(runtime, mode), beside, far)
            for kind, value in steps:
                await law.step(kind, value)
            await law.check_far()

    run_seeded(seed, body)
