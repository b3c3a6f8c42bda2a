"""Tests of what the service changes in a cluster besides Bindings."""
