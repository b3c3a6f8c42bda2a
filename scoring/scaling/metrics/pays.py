"""Would more workers pay? The predicted loss with and without them, against what the change costs (PAPERS E3).

    gain = (L(x + v(n)·H) − L(x + v(m)·(H − stall))) / (L(x) · (m − n))

L is the fitted loss curve over samples (`curve`), x the samples trained so far, v(n) the samples per second with n
workers (`speed`), H the horizon, `stall` the measured cost of a change. Growing from n to m workers pays if the gain
per added worker, as share of the present loss, reaches a given ratio: it falls as the curve flattens, as the workers
stop making training faster, and as the stall grows; and it is negative where the stall costs more than it brings.
"""

from dataclasses import dataclass

import numpy as np

from scoring.scaling.metrics.fits import Curve, fit_curve
from scoring.scaling.metrics.series import Series
from scoring.scaling.metrics.speed import Speed, progress, speed_of, stall_s
from scoring.scaling.options import MetricOptions


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of more workers."""

    stay: float
    """Loss at the horizon with the present workers."""
    grow: float
    """The same with more."""
    gain_ratio: float
    """Per added worker, as share of the present loss."""
    stall_s: float


@dataclass(frozen=True, slots=True)
class Model:
    """What a series shows of its job."""

    curve: Curve
    speed: Speed
    trained: float
    """Samples so far."""
    stall_s: float

    def forecast(self, workers: int, more: int, *, horizon_s: float) -> Forecast:
        """The loss `horizon_s` from now with `workers`, and with `more` of them after a stall.

        >>> from scoring.scaling.metrics.fits import Family
        >>> line = Curve(Family.EXPONENTIAL, floor=0.0, height=1.0, begin=0.0, scale=1000.0, explained=1.0)
        >>> model = Model(line, Speed((2, 4), (0.25, 0.125), 0.2), trained=0.0, stall_s=100.0)
        >>> found = model.forecast(2, 4, horizon_s=300.0)  # 1,200 samples, or 8 a second for 200 s
        >>> round(found.stay, 3), round(found.grow, 3), round(found.gain_ratio, 3)
        (0.301, 0.202, 0.05)
        >>> model.forecast(2, 4, horizon_s=150.0).gain_ratio < 0.0  # the stall costs more
        True
        """
        now = self.curve.at(self.trained)
        stay = self.curve.at(self.trained + self.speed.at(workers) * horizon_s)
        grow = self.curve.at(self.trained + self.speed.at(more) * max(horizon_s - self.stall_s, 0.0))
        gain = (stay - grow) / (now * max(more - workers, 1)) if now > 0.0 else 0.0
        return Forecast(stay, grow, gain, self.stall_s)


def model_of(series: Series, options: MetricOptions) -> Model | None:
    """Fit curve and speed; `None`: there are too few reports, no rate is known, or the loss does not fall."""
    told = series.part(np.isfinite(series.loss))
    speed = speed_of(series, serial_ratio=options.serial_ratio)
    if not len(told) or speed is None:
        return None
    samples = progress(told, speed)
    curve = fit_curve(samples, told.loss)
    if curve is None:
        return None
    measured = stall_s(series)
    return Model(curve, speed, float(samples[-1]), options.stall_s if measured is None else measured)
