"""Whole gangs leave for a waiting gang of higher priority (docs/explanation/preemption.md)."""
