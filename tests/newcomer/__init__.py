"""A newcomer with two terminals and a browser, who types what README and the tutorial print.

Why: the first page that lies costs a reader, and text and program drift apart with every change of either.
Rule: the documents are the script. Every command in a `sh` block is typed as it is printed, and what it prints must
be what the `text` block below shows, where `…` stands for what differs from time to time: alone on a line for any
number of lines, inside a line for any characters. Only Python's own library is used, so that
`python3 -m tests.newcomer` runs on a clean clone, before `make` has installed anything.
"""
