"""`python -m lab.bench.scale`."""

from lab.bench.scale.run import main

if __name__ == "__main__":
    main()
