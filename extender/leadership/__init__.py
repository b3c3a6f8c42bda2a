"""Leader election: a Lease of coordination.k8s.io, and what it takes to be sure of holding it, apart from all else."""
