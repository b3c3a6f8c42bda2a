"""Real servers of other projects on loopback, for tests; each is skipped with a sentence where it is not there."""
