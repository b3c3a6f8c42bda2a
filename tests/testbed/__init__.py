"""Tests of the testbed's own arithmetic and files; none of them needs Go."""
