"""Tests of the use cases: the whole service over a cluster in memory, in virtual time."""
