"""`python -m bench.apiserver`."""

from bench.apiserver.server import main

if __name__ == "__main__":
    main()
