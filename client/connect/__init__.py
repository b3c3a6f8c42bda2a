"""The way from a person's machine to a running netgang: an address, or the API server with the person's own rights.

Why a package of its own: every command that asks a service goes the same way, so that what works for one works for all.
Rule: credentials for the API server go to the API server alone; a token for netgang goes to netgang alone, encrypted or
within this machine (docs/adr/0005-asking-through-the-api-server.md).
"""
