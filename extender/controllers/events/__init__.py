"""What netgang says on objects of the cluster: Events, and the status of PodGroups."""
