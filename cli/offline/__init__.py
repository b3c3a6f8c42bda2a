"""The planner's answers from files, without a cluster."""
