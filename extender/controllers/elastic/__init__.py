"""Elastic jobs: read the kinds of jobs, carry out what `scoring.scaling` decides, and report each change.

Why a package: it is the only part of netgang that changes other people's jobs, and it is off by default. Rules: a
change is one patch that names the uid and the version that it was decided on; a job has at most one change under way;
freed capacity is reserved for the gang that it was freed for; another writer's change of a job wins.
"""
