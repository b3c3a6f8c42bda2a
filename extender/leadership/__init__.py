"""Leader election: a Lease of coordination.k8s.io, and what it takes to be sure of holding it.

Why apart from the rest: two leaders at a time are the one thing that must never happen, so the rules stand in one
place, without clocks, randomness and network, and are tested by themselves.
"""
