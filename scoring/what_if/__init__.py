"""Suppose that something were different, and see what the plan would be. Pure; nothing is changed anywhere."""
