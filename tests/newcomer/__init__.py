"""A newcomer with two terminals and a browser, who types what README and the tutorial print.

The documents are the script: every command in a `sh` block is typed as it is printed, and what it prints must be what
the `text` block below shows. Only Python's own library is used, so that `python3 -m tests.newcomer` runs on a clean
clone, before `make` has installed anything.
"""
