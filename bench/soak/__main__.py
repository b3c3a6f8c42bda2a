"""`python -m bench.soak`."""

from bench.soak.run import main

if __name__ == "__main__":
    main()
