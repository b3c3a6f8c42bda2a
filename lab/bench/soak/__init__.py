"""A busy cluster for minutes: `python -m lab.bench.soak`."""
