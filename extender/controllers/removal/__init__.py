"""Take pods away, announced and judged by fresh state: lost places, restarts, preemptions (docs/safety.md S10, S11)."""
