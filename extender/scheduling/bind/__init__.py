"""Bind calls: held until quorum, posted within limits, each answered once."""
