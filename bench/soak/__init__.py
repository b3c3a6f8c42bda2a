"""A busy cluster for minutes: `python -m bench.soak`."""
