"""What the simulator promises: its model of a cluster, its policies, its results."""
