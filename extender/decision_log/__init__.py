"""The decision log: the inputs of the planner and the permit machine, so that their decisions can be made again.

Why not the decisions alone: a decision without its inputs can be read and not questioned. Both machines are pure
functions, so their inputs are the whole truth: `netgang replay` runs them again and must come to the same, bit for bit,
and with other settings it shows what would have been decided instead.

- `change`: from one snapshot to the next, as the few things that are new.
- `entries`: what stands in a log, and how it is written.
- `recorder`: keeps the last megabytes of it, beside the event loop.
- `replay`: runs a log again.
"""
