"""POST /v1/what-if: suppositions about the running cluster."""
