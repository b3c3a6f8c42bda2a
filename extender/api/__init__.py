"""What people and their tools read over HTTP: readiness, metrics, and why each gang is where it is.

Why apart from the verbs: these are documents, asked for rarely, described by OpenAPI and served by FastAPI; the verbs
are asked hundreds of times a second by one client that waits, and bypass it.
"""
