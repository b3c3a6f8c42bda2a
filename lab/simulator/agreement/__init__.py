"""Small stories that run in the simulator and on real programs, and must end alike."""
