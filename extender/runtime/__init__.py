"""What every part of the process uses: clock, slices of the event loop, memory, metrics, log lines."""
