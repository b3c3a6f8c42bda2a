"""Check kube-scheduler's configuration against netgang's settings.

kube-scheduler itself checks little of an extender entry: with a wrong address, a timeout below the hold limit or an
ignorable binder it starts well, and gangs fail in silence.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from cli.doctor.facts import Facts, Finding, Json, ServiceAddress, error, warning
from extender.settings.settings import COMMIT_TIMEOUT_S, Settings, longest_bind_s

DEFAULT: Final = "default-scheduler"
_VERBS: Final = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind"}
_EXTENDER_TIMEOUT_S: Final = 5.0  # kube-scheduler's own default
_FILTER_MOST_S: Final = 5.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_UNIT_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)")


def duration_s(text: object) -> float | None:
    """Seconds of a duration as Go writes it; `None`: it is none.

    >>> duration_s("1m30s"), duration_s("500ms"), duration_s("60"), duration_s(None)
    (90.0, 0.5, None, None)
    """
    if not isinstance(text, str) or not text or _PART.sub("", text):
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(text))


def check_scheduler(seen: Facts) -> Iterator[Finding]:
    """Everything of one configuration; without a Service it should find netgang at the loopback."""
    config, settings, service = seen.scheduler, seen.settings, seen.service
    if not settings.extender or config is None:
        return
    yield from _profiles(config, settings)
    entries = [one for one in config.get("extenders") or () if any(one.get(verb) for verb in _VERBS)]
    if not entries:
        fix = "copy `extenders` from scheduler-config/, which has an entry for each verb"
        yield error("extender-missing", "no extender is configured: netgang is never asked", fix)
        return
    ours = [one for one in entries if _leads_to_us(one, settings, service)]
    if not ours:
        found = ", ".join(sorted({str(one.get("urlPrefix")) for one in entries}))
        where = f"{service.name}.{service.namespace}.svc:{service.port}" if service else f"127.0.0.1:{settings.port}"
        where = f"{'https' if settings.tls.cert_file is not None else 'http'}://{where}"
        yield error("extender-url", f"urlPrefix {found} does not lead to netgang", f"set urlPrefix: {where}")
        ours = entries
    yield from _verbs(ours)
    for one in ours:
        yield from _entry(one, settings)
        yield from _certificates(one, settings)


def _profiles(config: Json, settings: Settings) -> Iterator[Finding]:
    profiles = config.get("profiles") or [{}]
    names = [str(one.get("schedulerName") or DEFAULT) for one in profiles]
    if absent := sorted(set(settings.scheduler_names) - set(names)):
        what = f"no profile is named {', '.join(absent)}, the profiles are {', '.join(names)}"
        fix = "write the same name in profiles[].schedulerName and in netgang's setting scheduler_names"
        yield error("profile-name", what, fix)
    for name, profile in zip(names, profiles, strict=True):
        plugins = profile.get("plugins") or {}
        disabled = (plugins.get("multiPoint") or {}).get("disabled") or ()
        off = any(one.get("name") in ("DefaultPreemption", "*") for one in disabled)
        if name in settings.scheduler_names and name != DEFAULT and not off:
            what = f"profile {name}: DefaultPreemption is on, and evicts members of lighter gangs one by one"
            fix = "set profiles[].plugins.multiPoint.disabled: [{name: DefaultPreemption}]"
            yield error("preemption-on", what, fix)
    shares = [config.get("percentageOfNodesToScore"), *(one.get("percentageOfNodesToScore") for one in profiles)]
    if settings.sees_all_nodes and any(one != 100 for one in (shares[0], *filter(None, shares[1:]))):
        what = "percentageOfNodesToScore is not 100: planned nodes are sampled away, and that is taken for a refusal"
        yield error("nodes-sampled", what, "set percentageOfNodesToScore: 100")
    lease = config.get("leaderElection") or {}
    own = DEFAULT not in settings.scheduler_names
    if own and lease.get("leaderElect", True) and lease.get("resourceName", "kube-scheduler") == "kube-scheduler":
        what = "leaderElection.resourceName is the cluster's scheduler's: this one waits behind it permanently"
        fix = "set leaderElection.resourceName: netgang-scheduler and resourceNamespace: netgang-system"
        yield error("scheduler-lease", what, fix)


def _verbs(ours: Sequence[Json]) -> Iterator[Finding]:
    for verb, path in _VERBS.items():
        offered = [str(one[verb]) for one in ours if one.get(verb)]
        if offered != [path]:
            said = f"is {', '.join(offered)}" if offered else "is missing"
            yield error("extender-verbs", f"{verb} {said}", f"set {verb}: {path} in exactly one entry of extenders")
    if any(one.get("preemptVerb") for one in ours):
        what = "preemptVerb is set: netgang does not answer it, and every preemption fails"
        yield error("extender-verbs", what, "remove preemptVerb")


def _entry(one: Json, settings: Settings) -> Iterator[Finding]:
    verbs = "+".join(path for verb, path in _VERBS.items() if one.get(verb))
    timeout_s = duration_s(one.get("httpTimeout")) or _EXTENDER_TIMEOUT_S
    bind_s = longest_bind_s(hold_s=settings.hold_limit_s)
    if one.get("bindVerb") and timeout_s <= bind_s:
        what = (
            f"httpTimeout of the entry with bindVerb is {timeout_s:g} s, and a bind may take {bind_s:g} s "
            f"(hold_limit_s + {COMMIT_TIMEOUT_S:g} + slowest Binding): kube-scheduler gives up before the gang is bound"
        )
        fix = f"set httpTimeout: {settings.http_timeout_s:g}s there, or lower hold_limit_s"
        yield error("bind-timeout", what, fix)
    if (one.get("filterVerb") or one.get("prioritizeVerb")) and timeout_s > _FILTER_MOST_S:
        what = f"entry {verbs}: httpTimeout is {timeout_s:g} s, for which one unanswered call stops the whole scheduler"
        fix = "give filter and prioritize an entry of their own with httpTimeout: 2s, apart from bind"
        yield warning("filter-timeout", what, fix)
    if not one.get("nodeCacheCapable"):
        what = f"entry {verbs}: without nodeCacheCapable whole Node objects are sent with every call"
        yield error("node-objects", what, "set nodeCacheCapable: true")
    if one.get("ignorable"):
        what = f"entry {verbs}: ignorable lets a refused member pass, and start alone"
        yield error("extender-ignorable", what, "set ignorable: false")


def _certificates(one: Json, settings: Settings) -> Iterator[Finding]:
    scheme = urlsplit(str(one.get("urlPrefix"))).scheme
    wanted = "https" if settings.tls.cert_file is not None else "http"
    tls = one.get("tlsConfig") or {}
    if scheme != wanted or bool(one.get("enableHTTPS")) != (wanted == "https"):
        what = f"the entry speaks {scheme}, netgang {wanted}"
        fix = f"write {wanted}:// in urlPrefix and enableHTTPS: {str(wanted == 'https').lower()} (docs/how-to/tls.md)"
        yield error("extender-scheme", what, fix)
    elif wanted == "https" and not (tls.get("caFile") or tls.get("caData")):
        what = "tlsConfig has no caFile: kube-scheduler then checks no certificate at all"
        fix = "name the authority of netgang's certificate in tlsConfig.caFile (docs/how-to/tls.md)"
        yield error("extender-authority", what, fix)


def _leads_to_us(one: Json, settings: Settings, service: ServiceAddress | None) -> bool:
    parts = urlsplit(str(one.get("urlPrefix")))
    try:
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    if service is None:
        return port == settings.port and (host in _LOOPBACK or settings.host not in _LOOPBACK)
    inside = f"{service.name}.{service.namespace}"
    named = host in (inside, service.cluster_ip) or host == f"{inside}.svc" or host.startswith(f"{inside}.svc.")
    return named and port == service.port and parts.path in ("", "/")
