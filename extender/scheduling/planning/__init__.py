"""Keep one current plan: run the planner when something changed, and hand on what it decided."""
