"""Samples per second of a job where its pods are (PAPERS K8, E3).

One worker's step is its compute time, times how crowded its node is, and the time to exchange gradients and parameters.

With parameter servers (S of them, each has 1/S of the parameters) a worker pushes and pulls 2·P/S bytes to each over
the link between them, of which it has at most its share of its node's network card, and waits two round trips.

- asynchronous: workers step on their own, so their rates add up, until a ps is the bottleneck: its share of the network
  card, or what its cores can add up (`_PS_BYTES_PER_CORE_S`), bounds the steps per second. So the time falls with
  workers as long as the ps is none, and larger batches move that bound to more workers, as in K8.
- synchronous: a step is over when the slowest worker's is, and when the ps has served all of them.

Without parameter servers (ring all-reduce over the nodes in the order of the workers' indexes): 2·(n−1)/n·P bytes over
the slowest link of the ring, and 2·(n−1) one-way delays; always synchronous.

Assumptions: requests are what a pod uses of cores, at most; what others request on the node slows it down by up to a
tenth (caches and memory are shared); a node's card is divided evenly among the pods on it that talk to other nodes.
"""

from collections.abc import Mapping, Sequence

import msgspec

from lab.simulator.model import SimJob, Sync
from lab.simulator.speed.table import Profile, profile_of
from scoring.model.pod import CPU

_PS_BYTES_PER_CORE_S = 400e6
"""Parameters that one core of a ps receives, adds and sends, bytes a second."""
_CROWDING = 0.1
"""Slow-down of a worker on a node whose other cores are all requested."""


CARD_BPS = 10e9
"""A node's network card"""


class Wire(msgspec.Struct, frozen=True):
    """A link between two nodes as a connection sees it."""

    bps: float
    delay_s: float
    """One way"""


LOCAL, _LINK = Wire(20e9, 0.0), Wire(1e9, 0.0001)


def between(one: int, other: int) -> Wire:
    """The link between two rows: a good one, or none inside a node; bad ones are for processes (`make papers`)."""
    return LOCAL if one == other else _LINK


class Placement(msgspec.Struct, frozen=True):
    """Rows of the nodes of a job's pods, by index."""

    ps: tuple[int, ...]
    workers: tuple[int, ...]


class Crowd(msgspec.Struct, frozen=True):
    """What a job shares its nodes with."""

    talkers: Mapping[int, int]
    """row → pods on it that talk to other nodes, the job's own among them"""
    requested_ratio: Mapping[int, float]
    """row → share of its cores that is requested"""


class Speed(msgspec.Struct, frozen=True):
    """How a job trains while nothing around it changes."""

    samples_per_s: float
    busy_cores: float
    """Cores that compute, mean over time: those of workers but for their waiting, and of the ps while it adds up."""
    step_samples: float
    """Samples that one step of the job takes: a batch, or one of every worker's where they wait for each other."""


def talks(placement: Placement) -> tuple[int, ...]:
    """Rows of the job's pods that talk to other nodes; a row as often as there are such pods on it.

    >>> talks(Placement(ps=(0,), workers=(0, 0, 1)))
    (0, 1)
    >>> talks(Placement(ps=(), workers=(2, 2)))
    ()
    """
    if placement.ps:
        servers, clients = set(placement.ps), set(placement.workers)
        found = [row for row in placement.ps if clients - {row}]
        found += [row for row in placement.workers if servers - {row}]
        return tuple(found)
    rows = placement.workers
    return tuple(row for i, row in enumerate(rows) if rows[i - 1] != row or rows[(i + 1) % len(rows)] != row)


def speed_of(job: SimJob, placement: Placement, crowd: Crowd) -> Speed:
    """How the job trains at this placement, which has all its ps and at least one worker. Cost: O(ps · workers).

    >>> from scoring.model.pod import Resources
    >>> from lab.simulator.model import Work
    >>> core = Resources.parse({"cpu": "2"})
    >>> job = SimJob("a", 0.0, Work("vgg16", 8, 1e5), worker=core, workers=4, min_workers=1, ps=core, ps_count=1)
    >>> rates = [speed_of(job, Placement((0,), (1,) * n), Crowd({}, {})).samples_per_s for n in (1, 2, 4, 16)]
    >>> [round(rate, 1) for rate in rates]  # the fifth worker and all after it find the ps busy
    [5.9, 11.7, 23.5, 54.4]
    """
    recorded = job.work.recorded
    if recorded is not None:
        count = len(placement.workers)
        rate = recorded.rate(count)
        return Speed(rate, count * job.worker.get(CPU) / 1000.0, recorded.step_s[recorded.asked])
    profile = profile_of(job.work.model)
    cores = job.worker.get(CPU) / 1000.0
    base_s = profile.compute_s(job.work.batch, cores=cores)
    ratio = crowd.requested_ratio
    computes = [base_s * (1.0 + _CROWDING * ratio.get(row, 0.0)) for row in placement.workers]
    if placement.ps:
        return _with_servers(job, placement, profile, computes, crowd)
    return _ring(job, placement, profile, computes, crowd)


def _with_servers(job: SimJob, at: Placement, profile: Profile, computes: Sequence[float], crowd: Crowd) -> Speed:
    """Workers exchange with parameter servers."""
    shard_bits = 2.0 * 8.0 * profile.gradient_bytes / len(at.ps)
    batch, cores = job.work.batch, job.worker.get(CPU) / 1000.0
    ps_cores = max(job.ps.get(CPU) / 1000.0, 0.1)
    exchanges: dict[int, float] = {}  # row of a worker → its exchange
    for row in at.workers:
        if row not in exchanges:
            links = [between(row, server) for server in at.ps]
            share = CARD_BPS / max(crowd.talkers.get(row, 1), 1)
            sent_s = sum(shard_bits / (link.bps if link.delay_s == 0.0 else min(link.bps, share)) for link in links)
            exchanges[row] = sent_s + 4.0 * max(link.delay_s for link in links)
    serve_s = shard_bits / 8.0 / (_PS_BYTES_PER_CORE_S * ps_cores)
    """What a ps computes for one step of one worker."""
    bounds = [1.0 / serve_s]
    for server in at.ps:
        remote = sum(1 for row in at.workers if row != server)
        if remote:
            card = CARD_BPS / max(crowd.talkers.get(server, 1), 1)
            bounds.append(card / shard_bits * len(at.workers) / remote)
    most = min(bounds)
    """Steps of workers that the ps can take in a second."""
    steps = [compute + exchanges[row] for compute, row in zip(computes, at.workers, strict=True)]
    number = len(at.workers)
    if job.work.sync is Sync.SYNCHRONOUS:
        per_s = number / max(*steps, number / most) if number > 1 else 1.0 / max(steps[0], 1.0 / most)
    else:
        per_s = min(sum(1.0 / step for step in steps), most)
    busy = per_s / number * sum(computes) * cores + len(at.ps) * min(per_s * serve_s, 1.0) * ps_cores
    return Speed(per_s * batch, busy, batch * (number if job.work.sync is Sync.SYNCHRONOUS else 1))


def _ring(job: SimJob, at: Placement, profile: Profile, computes: Sequence[float], crowd: Crowd) -> Speed:
    """Workers exchange with their neighbours."""
    number, batch = len(at.workers), job.work.batch
    exchange_s = 0.0
    if number > 1:
        pairs = sorted({(at.workers[i - 1], at.workers[i]) for i in range(number)})
        links = [(between(*pair), pair) for pair in pairs]
        shares = [
            link.bps
            if pair[0] == pair[1]
            else min(link.bps, *(CARD_BPS / max(crowd.talkers.get(row, 1), 1) for row in pair))
            for link, pair in links
        ]
        sent_bits = 2.0 * (number - 1) / number * 8.0 * profile.gradient_bytes
        exchange_s = sent_bits / min(shares) + 2.0 * (number - 1) * max(link.delay_s for link, _ in links)
    step_s = max(computes) + exchange_s
    cores = job.worker.get(CPU) / 1000.0
    return Speed(number * batch / step_s, cores * sum(computes) / step_s, number * batch)
