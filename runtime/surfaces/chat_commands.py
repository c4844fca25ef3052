"""The commands of a chat. Each either answers at once, or begins work that goes on while lines are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs

from .. import Mode, OutlineRow, pretty
from .exits import UsageError
from .options import MODES
from .tree_lines import tree_line

if TYPE_CHECKING:
    from .chat_talk import Chat

_SKILL: Final = "skill:"


@attrs.frozen
class Command:
    """``usage`` and ``words`` are what ``/help`` says of it."""

    usage: str
    words: str
    run: Callable[[Chat, str], Awaitable[None]]


async def carry_out(chat: Chat, line: str) -> bool:
    """Carry out a line that begins with ``/``. False: it is for the agent.

    Raises:
      UsageError: the line is not as the command needs it, or this is not the moment for it.
      StrataflowError: what the command was refused with.
    """
    if not line.startswith("/"):
        return False
    name, _, rest = line[1:].strip().partition(" ")
    if (command := COMMANDS.get(name)) is not None:
        await command.run(chat, rest.strip())
        return True
    if name in _names_for_the_agent(chat):
        return False
    await chat.refuse(f"there is no command /{name[:96]}: see /help, or begin the line with a space to say it")
    return True


def _names_for_the_agent(chat: Chat) -> list[str]:
    skills = (_SKILL + skill.name for skill in chat.resources.skills)
    return [*skills, *(template.name for template in chat.resources.templates)]


async def _steer(chat: Chat, text: str) -> None:
    _need(text, "steer TEXT")
    if chat.is_busy:
        await chat.agent.steer(text)
        await chat.screen.say("(comes before the next model call)", "dim")
    else:
        await chat.say_to_agent(text)


async def _follow(chat: Chat, text: str) -> None:
    _need(text, "follow TEXT")
    await chat.say_to_agent(text)


async def _tree(chat: Chat, entry_id: str) -> None:
    if entry_id:
        _need_idle(chat)
        chat.start(partial(_navigate, chat, entry_id))
        return
    assert chat.session.tree is not None
    rows = _told(await chat.session.tree.outline())
    await chat.screen.show("\n".join(tree_line(row, lambda text, style: text) for row in rows))


def _told(rows: Sequence[OutlineRow]) -> Sequence[OutlineRow]:
    """Without what memory notes between the messages; the leaf is then the last row that is told on its branch."""
    shown = [row for row in rows if row.kind != "custom"]
    last = max((number for number, row in enumerate(shown) if row.is_on_branch), default=None)
    return [attrs.evolve(row, is_leaf=number == last) for number, row in enumerate(shown)]


async def _navigate(chat: Chat, entry_id: str) -> None:
    moved = await chat.agent.navigate(entry_id)
    await chat.screen.say(f"the conversation goes on from {moved.leaf_id or 'its beginning'}", "dim")
    if moved.text:
        await chat.screen.show(f"You said there: {moved.text}")


async def _mode(chat: Chat, mode: str) -> None:
    if mode and mode not in MODES:
        raise UsageError(f"/mode takes one of {', '.join(MODES)}")
    if mode:
        await chat.session.set_mode(cast(Mode, mode))
    await chat.screen.show(chat.session.indicator or "state-flow off")


async def _memory(chat: Chat, path: str) -> None:
    answer = await chat.session.read_state(path or "effective")
    for hint in answer.hint or ():
        await chat.screen.say(hint["message"], "yellow")
    shown = answer.to_json()
    await chat.screen.show(pretty(shown.get("value", shown.get("patch", shown))))


async def _compact(chat: Chat, instructions: str) -> None:
    _need_idle(chat)
    chat.start(partial(chat.agent.compact, instructions or None))


async def _help(chat: Chat, rest: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"/{command.usage.ljust(width)}  {command.words}" for command in COMMANDS.values()]
    lines += [f"/{name}" for name in _names_for_the_agent(chat)]
    lines.append("Any other line is for the agent; while it answers, the line follows. Ctrl-C stops the answer.")
    await chat.screen.show("\n".join(lines))


async def _quit(chat: Chat, rest: str) -> None:
    chat.end()


def _need(text: str, usage: str) -> None:
    if not text:
        raise UsageError(f"/{usage}: the text is missing")


def _need_idle(chat: Chat) -> None:
    if chat.is_busy:
        raise UsageError("something is under way: wait for its end, or stop it with Ctrl-C")


COMMANDS: Final[Mapping[str, Command]] = {
    "steer": Command("steer TEXT", "say something before the agent's next model call", _steer),
    "follow": Command("follow TEXT", "say something when the agent has answered, as any other line", _follow),
    "tree": Command("tree [ID]", "the conversation with all its branches; with ID go on from there", _tree),
    "mode": Command("mode [active|passive|off]", "the mode of memory; with a word choose it", _mode),
    "memory": Command("memory [PATH]", "what is remembered, or one path of it", _memory),
    "compact": Command("compact [TEXT]", "sum up what came first; TEXT says what matters", _compact),
    "help": Command("help", "this list", _help),
    "quit": Command("quit", "end the chat", _quit),
}
