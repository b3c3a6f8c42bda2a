"""Ratios of speeds that must not drift: two ways of doing one thing, side by side in one run."""
