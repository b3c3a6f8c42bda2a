"""Command line of the benchmarks on a real control plane: `python -m lab.bench peers`, `… exam`.

The others are programs of their own that print JSON lines and say by their exit status whether their goals hold:
`lab.bench.http` (the verbs), `lab.bench.planner`, `lab.bench.scale`, `lab.bench.testbed` (the
paper's training).
"""

import typer

from lab.bench.exam.command import EPILOG as EXAM_EPILOG
from lab.bench.exam.command import exam
from lab.bench.peers.command import EPILOG, peers

app = typer.Typer(help="Measure netgang beside its peers.", no_args_is_help=True)
app.command(epilog=EPILOG)(peers)
app.command(epilog=EXAM_EPILOG)(exam)

if __name__ == "__main__":
    app()
