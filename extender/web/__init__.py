"""The page at `/`: what netgang sees and decides.

Why not a build of a front-end framework: the page must work without internet, for years, from the wheel alone. Rules:

- Aggregates first: what is sent stays below 500 KiB, however large the cluster; lists say how much they left out.
- The page only looks. It is served where documents are; a client that may not read those gets empty frames.
- Nothing is worked out unless a page is open, in slices, and for a bounded share of the event loop.
"""
