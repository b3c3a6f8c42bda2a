"""One pod: raw JSON to a record, and what is read from its labels, requests and constraints."""
