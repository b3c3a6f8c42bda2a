"""`python -m lab.bench.soak`."""

from lab.bench.soak.run import main

if __name__ == "__main__":
    main()
