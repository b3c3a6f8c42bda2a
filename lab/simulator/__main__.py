"""`python -m lab.simulator`."""

from lab.simulator.command import app

if __name__ == "__main__":
    app(prog_name="python -m lab.simulator")
