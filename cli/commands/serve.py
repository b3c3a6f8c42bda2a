"""`netgang serve`: answer kube-scheduler; `netgang demo`: the same for the paper's test bed, with lines to try.

Why the demonstration: the first answer of a gang scheduler should take a newcomer a minute and no cluster. The cluster,
the mesh and the request bodies are the files under examples/, which are also what the README's commands use.
"""

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.plan import ConfigFile
from cli.output import clear_errors, option
from extender.errors import ConfigError

if TYPE_CHECKING:
    from extender.settings.settings import Settings

EXAMPLES = Path(__file__).parents[2] / "examples"


def serve(
    config: ConfigFile = None,
    kubeconfig: Annotated[Path | None, option("Credentials of the cluster.", "as kubectl")] = None,
    snapshot: Annotated[Path | None, option("Serve a saved cluster from memory instead of a live one.", "none")] = None,
    port: Annotated[int | None, option("Port to listen on.", "8888")] = None,
    debug_port: Annotated[int | None, option("Second port, for people: calls to it change nothing.", "none")] = None,
) -> None:
    """Answer kube-scheduler: /filter, /prioritize, /bind. Settings come from a file, NETGANG_… and options.

    Exit code: 0 after SIGTERM or Ctrl-C, with all that was held answered; 2 for bad settings; any other: it failed.
    """
    gc.disable()  # What is imported stays: looking through it is 6 % of the start (measured)
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import configure_logging
    from extender.settings.settings import Settings

    with clear_errors():
        given = {"kubeconfig": kubeconfig, "snapshot": snapshot, "port": port, "debug_port": debug_port}
        settings = Settings.load(config, given)
        configure_logging(level=settings.log_level.upper(), log_format=settings.log_format)
        run(settings)


def demo(port: Annotated[int, typer.Option(help="Port to listen on, this machine only.")] = 8888) -> None:
    """Serve the paper's test bed (36 nodes, zones A-D, three impaired nodes) and print what to try with curl.

    Exit code: 0 after SIGTERM or Ctrl-C; 2 the example files are not there; 3 the port cannot be had.
    """
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import LogFormat, configure_logging

    with clear_errors():
        settings = demo_settings(port)
        configure_logging(level="WARNING", log_format=LogFormat.TEXT)
        sys.stdout.write(what_to_try(port))
        sys.stdout.flush()
        run(settings)


def demo_settings(port: int) -> "Settings":
    """Settings of the demonstration. Errors: ConfigError outside a checkout, where the example files are missing."""
    from extender.settings.settings import Settings

    cluster = EXAMPLES / "snapshot" / "paper-testbed.json"
    mesh = EXAMPLES / "mesh" / "paper-testbed.json"
    for path in (cluster, mesh):
        if not path.exists():
            raise ConfigError(f"{path} is missing: run `netgang demo` from a checkout of the project")
    return Settings.load(
        None,
        {
            "snapshot": cluster,
            "port": port,
            # The mesh is an example, not a measurement: its values do not age.
            "network": {"sources": [{"kind": "file", "path": mesh}], "soft_ttl_s": None, "hard_ttl_s": None},
        },
    )


def what_to_try(port: int) -> str:
    """Lines to paste into another terminal, from the top of the checkout."""
    url = f"http://127.0.0.1:{port}"
    return f"""
netgang demo: the paper's test bed, 36 nodes in zones A-D, node33-35 impaired; two gangs wait.
See it at {url}/ in a browser. Paste these into another terminal, from this folder. Stop with Ctrl-C.

  # where may the first pod of gang demo/case1 go? (one node of zone D, never 33, 34, 35)
  curl -s {url}/filter -d @examples/requests/filter-case1.json
  # how good is each node for it, 0-10? (33, 34, 35 are the worst of zone D)
  curl -s {url}/prioritize -d @examples/requests/prioritize-case1.json
  # why does the TensorFlow job wait? (it wants 8 GPUs, the cluster has 4)
  curl -s {url}/filter -d @examples/requests/filter-tf-smoke-gpu.json
  curl -s {url}/v1/explain/demo/tf-smoke-gpu
  # the whole plan
  curl -s {url}/v1/plan
  # one bind is held until the whole gang is at bind; after 25 s it fails and nothing is bound
  curl -s {url}/bind -d @examples/requests/bind-case1.json
  # all six at once: held until the sixth, then all are bound
  examples/whole-gang.sh {url}

"""
