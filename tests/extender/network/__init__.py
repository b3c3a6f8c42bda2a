"""Tests of the sources of measurements, and of what becomes of them."""
