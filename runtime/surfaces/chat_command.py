"""``strataflow chat``: a conversation with an agent that has a memory, in a plain terminal or over pipes."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import attrs

from .. import Mode, Runtime, Session, normalise_cwd, open_runtime
from ..agent import Agent
from ..resources import Resources, load_resources
from .chat_events import Telling
from .chat_model import ENVIRONMENT, Choice, chosen_model, open_stream
from .chat_screen import Screen, open_screen
from .chat_talk import Chat, is_terminal_input
from .exits import UsageError
from .line_streams import take_standard_input
from .options import place_options, session_options, working_folder, writing_options
from .running import closing, run_command

_WHO = "strataflow chat"
# The agent of this chat has nothing but its memory: what a file of the user's says instead, wins.
_BASE = (
    "You talk with a person in a terminal. You can neither see nor change files and programs here, and have no tools "
    "but those of your memory: keep in it what shall still be known later. Answer in short, plain text."
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "chat",
        help="talk with an agent that has this memory",
        description="Talk with an agent that keeps its conversation in a session, and has no tools but those of its "
        "memory. Lines typed while it answers are taken too; /help lists the commands. Without a terminal, each line "
        "of standard input is answered before the next one is read.",
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER:ID",
        help=f"who answers, such as openai:gpt-4o; scripted:FILE plays a script, without any network (default: "
        f"${ENVIRONMENT})",
    )
    parser.add_argument(
        "--base-url", metavar="URL", help="where the model is asked; any model id is taken then (default: its own)"
    )
    place_options(parser)
    session_options(parser)
    writing_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends."""
    named = arguments.model or os.environ.get(ENVIRONMENT)
    if not named:
        raise UsageError(f"no model: give --model PROVIDER:ID, such as openai:gpt-4o, or set {ENVIRONMENT}")
    choice = chosen_model(named, arguments.base_url)
    return run_command(_WHO, lambda: _chat(arguments, choice), notice=False)


async def _chat(arguments: argparse.Namespace, choice: Choice) -> int:
    cwd = normalise_cwd(working_folder(arguments.cwd))
    reader = take_standard_input()
    screen = open_screen()
    try:
        async with open_stream(choice, arguments.base_url) as stream:
            resources = await load_resources(cwd, arguments.agent_dir)
            async with _opened(arguments, cwd) as session:
                agent = Agent(
                    model=choice.model,
                    system_prompt=_system_prompt(resources),
                    stream_fn=stream,
                    session=session,
                    expand=resources.expand,
                )
                telling = Telling(screen)
                agent.subscribe(telling.hear)
                chat = Chat(agent, session, screen, reader, telling, resources, is_terminal_input())
                await _greet(screen, session, choice, resources)
                async with agent:
                    return await chat.run()
    finally:
        screen.close()
        reader.close()


@asynccontextmanager
async def _opened(arguments: argparse.Namespace, cwd: str) -> AsyncIterator[Session]:
    async with open_runtime(
        arguments.agent_dir,
        store=arguments.store,
        durability=arguments.durability,
        history_limit=arguments.history_limit,
        share_with_pi=arguments.share_with_pi,
    ) as runtime:
        async with closing(_WHO, runtime):
            session = await runtime.open_session(cwd, arguments.session, arguments.mode, tree=True)
            if await _is_unset(arguments.mode, runtime, session):
                await session.set_mode("active")
            yield session


async def _is_unset(given: Mode | None, runtime: Runtime, session: Session) -> bool:
    """Whether nobody has chosen a mode: then a chat has a memory, which is what it is for."""
    if given is not None or runtime.settings.mode is not None or session.mode != "off":
        return False
    assert session.tree is not None
    return not any(entry["type"] == "message" for entry in await session.tree.get_entries())


def _system_prompt(resources: Resources) -> str:
    if resources.base is None:
        resources = attrs.evolve(resources, base=_BASE)
    return resources.system_prompt(date=date.today(), tools=())


async def _greet(screen: Screen, session: Session, choice: Choice, resources: Resources) -> None:
    for diagnosis in resources.diagnoses:
        await screen.say(f"{diagnosis.path}: {diagnosis.message}", "yellow")
    if is_terminal_input():
        model = f"{choice.model.provider}:{choice.model.id}"
        await screen.say(f"session {session.session_id} in {session.cwd}, memory {session.mode}, {model}", "dim")
        await screen.say("/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat", "dim")
