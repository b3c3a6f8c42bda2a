"""Choose nodes for the members of one gang inside one set of candidates, usually a zone (PAPERS N3, K6)."""
