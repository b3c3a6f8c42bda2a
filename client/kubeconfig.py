"""Which kubeconfig and which context are meant, as kubectl understands KUBECONFIG.

Rule: one file is used as a whole. kubectl merges the files that KUBECONFIG lists; here the first one that holds the
context is taken, and must hold its cluster and user too.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from extender.errors import ConfigError
from extender.kube.credentials import _document


@dataclass(frozen=True, slots=True)
class Chosen:
    """A file and a context of it; no file: the credentials of the pod we run in."""

    file: Path | None
    context: str | None
    namespace: str  # The context's own; "" if it names none


def chosen(kubeconfig: Path | None, context: str | None, *, environment: Mapping[str, str] = os.environ) -> Chosen:
    """What the options mean; without a file $KUBECONFIG, ~/.kube/config or the pod. Blocks. Errors: ConfigError."""
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = [kubeconfig] if kubeconfig is not None else listed or [Path.home() / ".kube" / "config"]
    read = {file: _contexts(file) for file in files if kubeconfig is not None or file.is_file()}
    if not read and context is None and environment.get("KUBERNETES_SERVICE_HOST"):
        return Chosen(None, None, "")
    named = ", ".join(map(str, files))
    if not read:
        raise ConfigError(f"kubeconfig: {named} does not exist; name a file with --kubeconfig")
    wanted = context or next((current for current, _ in read.values() if current), "")
    for file, (_, contexts) in read.items():
        if wanted in contexts:
            return Chosen(file, wanted, contexts[wanted])
    if not wanted:
        raise ConfigError(f"kubeconfig {named}: current-context is empty; name one with --context")
    known = sorted({name for _, contexts in read.values() for name in contexts})
    raise ConfigError(f"kubeconfig {named}: no context {wanted!r}; there are {', '.join(known) or 'none'}")


def _contexts(file: Path) -> tuple[str, dict[str, str]]:
    document = _document(file)
    listed, namespaces = document.get("contexts"), {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("name"):
            context = one.get("context")
            namespace = context.get("namespace") if isinstance(context, dict) else None
            namespaces[str(one["name"])] = str(namespace or "")
    return str(document.get("current-context") or ""), namespaces
