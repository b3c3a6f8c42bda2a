"""Hostile objects, changed by chance and read by the real readers: `python -m tests.fuzz` (docs/safety.md S21)."""
