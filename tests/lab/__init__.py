"""What lab/papers promises: a job that trains, resized and killed as the experiments do."""
