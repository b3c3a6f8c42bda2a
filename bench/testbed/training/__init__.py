"""A small, real data-parallel training job: numpy does the arithmetic, TCP sockets carry every gradient.

Rule: workers are synchronous, so that parameter server, ring and a single process give the same gradients; what differs
between two runs is then the network alone.
"""
