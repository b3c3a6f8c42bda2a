"""The decision log: the inputs of the planner and the permit machine, so that their decisions can be made again.

Both machines are pure functions, so their inputs are the whole truth: `netgang replay` runs them again and must come to
the same, bit for bit, and with other settings it shows what would have been decided instead.
"""
