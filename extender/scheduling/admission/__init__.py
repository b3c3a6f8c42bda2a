"""Admissions: gates that go, gangs that arrive at bind, lapses, nodes whose network got worse."""
