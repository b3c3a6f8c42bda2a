"""What of kube-scheduler's filters is modelled, and whether a gang has its quorum."""
