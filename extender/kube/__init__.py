"""The Kubernetes API: the one place that speaks to it."""
