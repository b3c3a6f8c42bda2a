"""What the verbs and gates answer from a plan."""
