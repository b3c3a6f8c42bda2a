"""The documents of /v1 as plain JSON values; the CLI prints the same."""
