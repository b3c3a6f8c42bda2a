"""Random chaos on a real control plane: honest tenants, hostile ones, faults, and a witness that writes it all down."""
