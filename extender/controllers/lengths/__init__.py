"""How long gangs run: former runs are observed, kept in a ConfigMap, and read again; reports become lengths."""
