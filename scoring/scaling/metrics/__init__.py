"""What a job's own metrics ask for."""
