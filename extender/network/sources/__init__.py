"""What all sources of measurements share: HTTP with limits, last good answers, configuration."""
