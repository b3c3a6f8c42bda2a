"""The same decisions in virtual time: workloads, a model of what surrounds netgang, and what came of it.

Why: what scheduling is worth shows in hours and in thousands of jobs. Rule: decisions are made by the code that
decides in a cluster; only time, nodes and training are modelled, and each model says what it assumes.
"""
