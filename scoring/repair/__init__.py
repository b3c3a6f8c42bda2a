"""What is done about gangs that lost members, and about admitted pods without a usable node."""
