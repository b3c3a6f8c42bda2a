"""Measurements of netgang on one machine; each module is a program that prints JSON lines."""
