"""The programs of a control plane: where they come from, built once."""
