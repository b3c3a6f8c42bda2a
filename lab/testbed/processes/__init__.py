"""Child processes of a control plane, and what they need: ports, credentials, configurations."""
