"""How an image is built with the engine that is there: buildah, or docker with buildx; each writes an OCI archive."""

from pathlib import Path


def commands(engine: str, version: str, target: Path, *, epoch_s: int) -> list[list[str]]:
    """The commands that build the Dockerfile and write `target`, with the release's time on what they write."""
    name = f"netgang:{version}"
    if engine == "buildah":
        return [
            ["buildah", "build", "--timestamp", str(epoch_s), "--tag", name, "."],
            ["buildah", "push", name, f"oci-archive:{target}:{name}"],
        ]
    output = f"type=oci,dest={target},name={name},rewrite-timestamp=true"
    argument = f"SOURCE_DATE_EPOCH={epoch_s}"
    return [["docker", "buildx", "build", "--build-arg", argument, "--output", output, "."]]
