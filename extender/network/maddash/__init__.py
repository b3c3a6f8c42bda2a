"""A MaDDash server as a source of measurements."""
