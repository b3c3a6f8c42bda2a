"""The command line: one module a heading of the help, what is printed apart."""
