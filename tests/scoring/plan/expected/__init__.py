"""Expected starts."""
