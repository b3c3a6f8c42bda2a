"""What every part of the process uses: slices of the event loop, memory, metrics, log lines."""
