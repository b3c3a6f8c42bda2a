"""A loopback API server: `python -m bench.apiserver`."""
