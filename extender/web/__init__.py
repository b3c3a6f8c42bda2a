"""The page at `/`: what netgang sees and decides. It works without internet, for years, from the wheel alone.

Rules: aggregates first, below 500 KiB however large the cluster, and lists say how much they left out; the page only
looks, and is served where documents are. Nothing is worked out unless a page is open.
"""
