"""What an operator may choose, one section a file."""
