"""Ask a running netgang for its documents."""
