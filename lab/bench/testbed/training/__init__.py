"""A small, real data-parallel training job: numpy does the arithmetic, TCP sockets carry every gradient.

Rule: a synchronous parameter server and a single process give the same gradients; what differs between two runs
is then the network alone. Of the asynchronous server that holds for one worker; with more, its updates are counted.
"""
