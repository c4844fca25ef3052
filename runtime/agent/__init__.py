"""The agent: messages, the loop, tools and queues. Users reach it as ``strataflow.Agent`` and ``strataflow.agent``."""

from .agent import CLOSE_S, Agent
from .errors import AgentError
from .events import AgentEvent, ToolResult
from .host import AgentHost, HostRun, NoHost, NoHostRun
from .messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    LlmMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    only_llm,
)
from .model_stream import Model, ModelRequest, StreamEvent, StreamFunction, StreamOptions, ThinkingLevel
from .queue_file import Recorder
from .recording import NewEntry, recorded_as
from .scripted import ScriptedModel, scripted_model
from .sessions import ConversationRules, RetrySettings
from .signals import AbortSignal
from .state import AgentState
from .tools import Block, Listener, ResultChange, Tool, ToolCallContext

__all__ = [
    "CLOSE_S",
    "AbortSignal",
    "Agent",
    "AgentError",
    "AgentEvent",
    "AgentHost",
    "AgentMessage",
    "AgentState",
    "AssistantMessage",
    "Block",
    "ConversationRules",
    "CustomMessage",
    "HostRun",
    "ImageBlock",
    "Listener",
    "LlmMessage",
    "Model",
    "ModelRequest",
    "NewEntry",
    "NoHost",
    "NoHostRun",
    "Recorder",
    "ResultChange",
    "RetrySettings",
    "ScriptedModel",
    "StreamEvent",
    "StreamFunction",
    "StreamOptions",
    "TextBlock",
    "ThinkingBlock",
    "ThinkingLevel",
    "Tool",
    "ToolCallBlock",
    "ToolCallContext",
    "ToolResult",
    "ToolResultMessage",
    "Usage",
    "UserMessage",
    "only_llm",
    "recorded_as",
    "scripted_model",
]
