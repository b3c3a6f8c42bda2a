"""`netgang demo`: the paper's test bed, served from memory, with lines to try.

Why: the first answer of a gang scheduler should take a newcomer a minute and no cluster. The cluster, the mesh and the
request bodies are the files under examples/, which are also what the README's commands use.
"""

from pathlib import Path

from extender.errors import ConfigError
from extender.settings.settings import Settings

EXAMPLES = Path(__file__).parents[2] / "examples"


def demo_settings(port: int) -> Settings:
    """Settings of the demonstration. Errors: ConfigError outside a checkout, where the example files are missing."""
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
