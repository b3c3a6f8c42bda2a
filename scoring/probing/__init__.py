"""netgang's own probe: which nodes measure each other, and what their reports say about a link."""
