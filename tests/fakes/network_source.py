"""A source of measurements in memory: says what a test put into it, fails when asked to."""

from collections.abc import Mapping

from msgspec.structs import astuple, replace

from extender.errors import NetworkSourceError
from extender.ports import Batch, EndpointInfo
from scoring import EndpointId
from scoring.network.matrix import Measurement, MeasurementTable, Metric
from tests.fakes.mesh import Mesh


class FakeNetworkSource:
    def __init__(self, name: str = "fake") -> None:
        self.name = name
        self._next: tuple[Measurement, ...] | None = ()
        self._endpoints: tuple[EndpointInfo, ...] = ()
        self._error: Exception | None = None
        self.fetched_at_s: list[float] = []  # times at which it was asked

    def set(self, *measurements: Measurement, aliases: Mapping[str, tuple[str, ...]] | None = None) -> None:
        ends = {end for one in measurements for end in (one.source, one.target)}
        self._endpoints = tuple(EndpointInfo(end, (aliases or {}).get(end, ())) for end in sorted(ends))
        self._next, self._error = measurements, None

    def fail(self, error: Exception | None = None) -> None:
        self._error = error or NetworkSourceError(f"{self.name}: connection refused")

    async def fetch(self, *, now_s: float) -> Batch | None:
        """The answer that was set, once; then `None` until another one is set."""
        self.fetched_at_s.append(now_s)
        if self._error is not None:
            raise self._error
        answer, self._next = self._next, None
        if answer is None:
            return None
        measured = (replace(m, measured_at_s=min(m.measured_at_s, now_s)) for m in answer)
        return Batch(MeasurementTable.from_measurements(measured), self._endpoints, now_s)


def measurements(mesh: Mesh, *, measured_at_s: float) -> list[Measurement]:
    return [
        Measurement(EndpointId(source), EndpointId(target), metric, value, measured_at_s)
        for (source, target), link in mesh.links.items()
        for metric, value in zip((Metric.LOSS, Metric.DELAY, Metric.THROUGHPUT), astuple(link), strict=True)
        if value is not None
    ]
