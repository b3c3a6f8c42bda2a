"""The agent that measures a node's links: `netgang-probe`, one process on each node; the standard library alone.

It exchanges packets (`probe.packets`) with the agents that netgang assigns, and reports what it measured every
ten seconds. Rule: what the agent itself may have caused (it ran late, its socket was full) is *suspect*, is counted
apart and never counts against a link. docs/reference/probe.md.
"""
