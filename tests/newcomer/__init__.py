"""What documents tell their reader to type, and a reader who does it."""
