"""A public exam: scheduling scenarios of NVIDIA's knavigator benchmarks, netgang beside other schedulers.

Why: figures of speed say nothing about what a scheduler decides. Rule: what counts as passed stands in `scenarios`,
taken from knavigator's text before anything ran.
"""
