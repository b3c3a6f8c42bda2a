"""What people and their tools read over HTTP, asked for rarely, described by OpenAPI and served by FastAPI."""
