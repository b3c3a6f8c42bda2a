"""`netgang simulate`: hand over to the simulator of a checkout, which the installed package does not contain."""

import typer

from cli.output import clear_errors
from extender.errors import ConfigError


def simulate(context: typer.Context) -> None:
    """Simulate training jobs under several policies, in a checkout of the project: no cluster is needed.

    Exit code: 0 it ran; 2 the scenario cannot be used, or this is no checkout.
    """
    with clear_errors():
        try:
            from lab.simulator.command import app
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "lab":
                raise
            raise ConfigError(
                "the simulator is no part of the installed package: in a clone of the project run "
                "`make setup`, then `.venv/bin/netgang simulate`"
            ) from error
    app(context.args, prog_name="netgang simulate")
