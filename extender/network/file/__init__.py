"""A mesh file as a source of measurements."""
