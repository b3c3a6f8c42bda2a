"""HTTP to the API server: connections, exchanges, streams, time limits."""
