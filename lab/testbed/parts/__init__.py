"""Parts of a running control plane: processes, and controllers that stand in for others."""
