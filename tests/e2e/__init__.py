"""Tests on a real control plane; see conftest.py for how they are selected and isolated."""
