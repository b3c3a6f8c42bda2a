"""How fast a job trains where it is, what a change of its workers costs, and how its loss falls: pure functions."""
