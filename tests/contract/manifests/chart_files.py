"""charts/netgang/files: copies of what the templates read in manifests/ and scheduler-config/. Renew them with
`.venv/bin/python -m tests.contract.manifests.chart_files`.

Copies, because Helm packages nothing above a chart, and warns of each symbolic link.
"""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
COPIES = ROOT / "charts/netgang/files"
SOURCES = (
    *(f"manifests/base/{name}.yaml" for name in ("confinement", "disruption", "notes", "rbac", "settings")),
    *(
        f"manifests/components/{name}/rbac.yaml"
        for name in ("debug-auth", "elastic", "explain", "lengths", "reports", "restart")
    ),
    "manifests/components/flow-schema/flow-schema.yaml",
    "manifests/components/gate-policy/policy.yaml",
    "manifests/components/monitoring/dashboard.json",
    *(f"manifests/components/monitoring/{name}.yaml" for name in ("networkpolicy", "pod-monitor", "rules")),
    *(f"manifests/components/probe/{name}.yaml" for name in ("agent", "networkpolicy")),
    "manifests/components/scheduler-name-policy/policy.yaml",
    "manifests/components/tls/second-scheduler.yaml",
    *(f"manifests/components/warnings/{name}.yaml" for name in ("jobs", "policy")),
    "manifests/overlays/native/settings.yaml",
    *(f"manifests/overlays/second-scheduler/{name}.yaml" for name in ("disruption", "scheduler-rbac")),
    *(f"manifests/uninstall/{name}.yaml" for name in ("job", "rbac")),
    "scheduler-config/second-scheduler.yaml",
)
"""Each is read by a template: one that is missing fails the rendering, one too many the test."""


def wanted() -> dict[str, str]:
    """Path below `files` → its text."""
    return {name: (ROOT / name).read_text() for name in SOURCES}


def found() -> dict[str, str]:
    """The same of what is in the chart now; a symbolic link has no text of its own."""
    files = sorted(path for path in COPIES.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(COPIES)): "" if path.is_symlink() else path.read_text() for path in files}


def write() -> None:
    """Replace all copies."""
    shutil.rmtree(COPIES, ignore_errors=True)
    for name, text in wanted().items():
        (COPIES / name).parent.mkdir(parents=True, exist_ok=True)
        (COPIES / name).write_text(text)


if __name__ == "__main__":
    write()
