"""The queue as people see it: every gang with its state, weight, clock and rank."""
