"""Tables, matrices and sentences for people."""
