"""Which endpoints measure which: configurations of perfSONAR and MaDDash for a cluster's nodes and zones.

Why: the score needs links between the nodes of a zone, and some between zones; a full mesh of all nodes would take
days for one round of throughput tests. Rule: pure functions from nodes to documents; no file, no network, no clock.
"""
