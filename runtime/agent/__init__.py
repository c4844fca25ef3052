"""The agent: messages, the loop, tools and queues. Users reach it as ``strataflow.Agent``."""
