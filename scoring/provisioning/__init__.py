"""Which waiting gangs ask an autoscaler for nodes."""
