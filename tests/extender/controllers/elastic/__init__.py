"""Elastic jobs at work."""
