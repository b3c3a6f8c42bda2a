"""A perfSONAR 5 archive as a source of measurements."""
