"""Remove scheduling gates, wake parked pods, and remove admitted pods whose nodes cannot take them any more."""
