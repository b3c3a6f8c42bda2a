"""The service: everything that touches the world. Decisions are `scoring`'s; this package carries them out."""
