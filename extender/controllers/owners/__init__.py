"""What the owners of pods want, allow and count: Jobs, training jobs, quotas, deadlines."""
