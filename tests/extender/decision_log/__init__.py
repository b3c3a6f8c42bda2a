"""The decision log: changes, entries, recorder, replay."""
