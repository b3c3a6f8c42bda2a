"""netgang beside its peers on a real control plane: the same loads, scheduled in different ways, in turns.

The modules: a `workload` says which pods arrive on which nodes, a `way` says what schedules them, the `bed` runs one of
each, `figures` turns what was seen into figures, `compare` does it round after round, `goals` judges, `command` is the
command line.
"""
