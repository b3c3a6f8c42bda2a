"""What controllers would make of manifests."""
