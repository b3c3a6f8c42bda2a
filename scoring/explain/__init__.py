"""Explanations of gangs for people."""
