"""The page at `/`: what netgang sees and decides. It works without internet, for years, from the wheel alone."""
