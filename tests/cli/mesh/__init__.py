"""Tests of cli.mesh."""
