"""The cluster in memory: one writer (`cluster`), fed by reflectors kind by kind, read as immutable snapshots."""
