"""Everything that decides: pure functions over a snapshot, a policy and `now_s`.

Why a package of its own: a decision that needs no clock, no chance and no I/O can be tested by tables and
properties, replayed bit for bit, and run unchanged in a simulator. Import direction: nothing here imports `extender`.
"""
