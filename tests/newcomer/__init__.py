"""What documents tell their reader to type, and a reader who does it; what file names should tell (questions.toml)."""
