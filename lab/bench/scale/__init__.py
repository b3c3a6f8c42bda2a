"""Large clusters: `python -m lab.bench.scale`."""
