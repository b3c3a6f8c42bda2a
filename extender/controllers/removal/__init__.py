"""What every removal of pods goes through: fresh state, quiet period, disruption budgets, announcement."""
