"""The page: heat-map, sections, stream, addresses."""
