"""Build a release: wheels, chart, list of what they contain, checksums, image; see docs/developers/release.md.

Rule: the same commit gives the same bytes: times are the commit's (SOURCE_DATE_EPOCH), orders are sorted, the programs
that build are pinned with their hashes.
"""
