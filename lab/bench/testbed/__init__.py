"""Nodes that are network namespaces of this machine, with links to impair and netgang as installed on them.

Not the package `testbed` (a real Kubernetes control plane), which `site` and `services` put on such nodes. Everything
happens inside namespaces that the run makes and removes: docs/explanation/papers.md.
"""
