"""Room that nodes keep for pods of DaemonSets which are still to come (docs/safety.md S12, S26)."""
