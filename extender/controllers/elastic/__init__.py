"""Elastic jobs: read the kinds of jobs, carry out what `scoring.scaling` decides, report it."""
