"""Hostile objects: recorded ones of every kind that netgang reads, changed by chance and read by the real readers.

`.venv/bin/python -m tests.fuzz --objects 50000` reads as many and shows figures; tests/extender/convert/test_fuzz.py
does it with fewer in `make test`. What must hold is docs/safety.md S21.
"""
