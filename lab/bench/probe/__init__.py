"""The agent `netgang probe`, measured: what it costs, and how right it is on networks with known faults."""
