"""Elastic jobs at work: read their kinds, carry out what `scoring.scaling` decides, and say what was done.

Why a package of its own: it is the only part of netgang that changes other people's jobs, and it is switched off by
default. Rules: a change is one patch that names the uid and the version that it was decided on; at most one change of a
job is under way; what is freed is kept for whom it was freed; whoever else changes a job wins.
"""
