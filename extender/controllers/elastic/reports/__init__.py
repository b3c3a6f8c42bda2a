"""What jobs report of their training, and the worker counts that they ask for by it."""
