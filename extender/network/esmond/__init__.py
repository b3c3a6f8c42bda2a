"""An esmond archive as a source of measurements."""
