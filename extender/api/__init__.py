"""What people and their tools read over HTTP, asked for rarely, described by OpenAPI and served by FastAPI.

The verbs bypass it: they are asked hundreds of times a second by one client that waits.
"""
