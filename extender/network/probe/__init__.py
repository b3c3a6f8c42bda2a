"""netgang's own probe, this side of it: agents report their links, and are answered which to measure."""
