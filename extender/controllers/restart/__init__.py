"""Restart a gang as a whole: its owner is suspended, and resumed when the pods are gone."""
