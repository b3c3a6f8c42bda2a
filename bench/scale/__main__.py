"""`python -m bench.scale`."""

from bench.scale.run import main

if __name__ == "__main__":
    main()
