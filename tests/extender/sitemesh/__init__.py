"""Tests of extender.sitemesh."""
