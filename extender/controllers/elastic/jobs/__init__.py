"""Elastic jobs as their objects, pods and gangs show them."""
