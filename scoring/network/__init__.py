"""Measured properties of links between nodes."""
