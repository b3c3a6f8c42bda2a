"""Where network measurements come from, and how they become one matrix of nodes."""
