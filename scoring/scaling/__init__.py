"""How many workers an elastic job should have: shrink for a waiting gang, grow into idle room, follow its metrics.

Why in `scoring`: whether a running job loses workers must be explainable and repeatable. Rules: ps, chiefs and the
minimum are never touched; only "how many" can be chosen, never "which"; a plan is applied whole or not at all.
"""
