"""The parts of the service, each put together in one place."""
