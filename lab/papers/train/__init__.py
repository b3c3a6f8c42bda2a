"""A training job of its own: real data, real traffic, checkpoints; what a pod of the papers' experiments runs."""
