"""What is recorded of gangs that start."""
