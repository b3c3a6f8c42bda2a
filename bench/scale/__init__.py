"""Large clusters: `python -m bench.scale`."""
