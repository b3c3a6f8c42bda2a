"""Which running jobs give up how many workers for a waiting gang."""
