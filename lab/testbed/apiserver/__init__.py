"""An API server in memory: its objects, and the calls that netgang makes, for simulations, benchmarks and tests."""
