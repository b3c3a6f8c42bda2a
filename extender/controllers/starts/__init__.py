"""What is recorded of gangs that start: how long they waited, and what network they got."""
