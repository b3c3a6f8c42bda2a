"""Changes that might get a gang admitted; `scoring.explain.unblock` has the planner try each before it is offered."""
