"""Prometheus as a source of measurements."""
