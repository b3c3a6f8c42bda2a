"""The network paper's experiment on real network namespaces: real training on 6 of 9 nodes.

Not the package `testbed` (a real Kubernetes control plane): here the network is real and the cluster is a saved one.
Everything happens inside namespaces that the run makes and removes: docs/research/testbed.md.
"""
