"""Gangs that lost members after they had started."""
