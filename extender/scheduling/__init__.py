"""The use cases: what happens between a request or a cluster event and a decision of `scoring`.

One thread of control (the event loop) and no locks: filter and prioritize never await, and everything that waits
re-reads what it needs afterwards. Rule: nothing here decides where a pod goes or whether a gang starts; it asks
`scoring` and carries the answer out through the ports.
"""
