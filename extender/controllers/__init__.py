"""Changes that netgang makes in the cluster besides Bindings: gates, removals, Events, statuses, worker counts."""
