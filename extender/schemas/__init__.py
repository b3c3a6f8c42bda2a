"""One schema for each document under /v1.

The server builds and encodes it, the client decodes it; OpenAPI and the docs have the text beside or below each field.

Rules:
- A client ignores the fields that it does not know, and words of a closed set are `str`.
- A record of `scoring` that says what people are told is the answer itself; `extender.api.documents` fills what else is
  about decisions. Watches, cache, election and sources fill the records about themselves.
- `UNSET` is a field that is left out; `None` is written as null. NaN is written as null.
"""
