"""Texts for people, made of documents."""
