"""The cause for which a gang waits: one of a closed set, with a message and what helps, in words for people."""
