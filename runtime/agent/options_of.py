"""What an agent gives its next run to work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import RunOptions
from .tools import Tool

if TYPE_CHECKING:
    from .agent import Agent


def options_of(agent: Agent) -> RunOptions:
    """The snapshot for a run that begins now."""
    tools: dict[str, Tool] = {}
    for tool in (*agent._host.tools(), *agent.state.tools):
        tools.setdefault(tool.name, tool)
    budgets = agent.thinking_budgets
    return RunOptions(
        model=agent.state.model,
        system_prompt=agent.state.system_prompt,
        thinking_level=agent.state.thinking_level,
        tools=tools,
        stream_fn=agent.stream_fn,
        convert_to_llm=agent.convert_to_llm,
        transform_context=agent.transform_context,
        get_api_key=agent.get_api_key,
        api_key=agent.api_key,
        steering_policy=agent.steering_policy,
        tool_execution=agent.tool_execution,
        before_tool_call=agent.before_tool_call,
        after_tool_call=agent.after_tool_call,
        should_stop_after_turn=agent.should_stop_after_turn,
        session_id=agent.session_id,
        thinking_budgets=None if budgets is None else dict(budgets),
        transport=agent.transport,
        max_retry_delay_s=agent.max_retry_delay_s,
        host=agent._host,
    )
