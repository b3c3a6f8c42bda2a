"""Scores of pairs of nodes (20:40:40) and of zones."""
