"""Look at a cluster, its sources and a running netgang with an operator's rights, and change nothing: facts for checks.

Rule: what the operator may not read is said and left out; an API server that does not answer ends it
(ApiUnavailableError). Pods are read page by page.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import yaml
from msgspec.structs import replace

from client import decoded, fetch
from client.way import door
from extender.convert import node_from_json, pod_from_json
from extender.errors import ApiError, ConfigError, NetworkSourceError
from extender.kube import calls
from extender.kube.client import OperatorApi
from extender.kube.own_objects import ROLE_LABEL, STARTED_GANGS
from extender.leadership.election import LeaseTimes
from extender.schemas import NetworkSources, ProbeAgents, Readiness
from extender.settings.reading import from_environment, merge
from extender.settings.settings import LEASE_NAME, Settings
from scoring.model import Node

_T = TypeVar("_T")
NAME: Final = "netgang"
SCHEDULER: Final = "netgang-scheduler"
_POLICIES: Final = "/apis/admissionregistration.k8s.io"
CONFINING: Final = ("netgang-jobs", "netgang-nodes", "netgang-pod-status", "netgang-pods")  # And their bindings
Json: TypeAlias = Mapping[str, Any]


class ServiceAddress(msgspec.Struct, frozen=True):
    """Where kube-scheduler finds netgang by its Service."""

    name: str
    namespace: str
    port: int
    cluster_ip: str = ""


class Replica(msgspec.Struct, frozen=True):
    """A pod of netgang's."""

    name: str
    ready: bool
    role: str = ""


class LeaseSeen(msgspec.Struct, frozen=True):
    """The Lease of the replicas, looked at twice, at least its duration apart."""

    holder: str
    renewed: bool  # Whether it changed between the two looks


class Answered(msgspec.Struct, frozen=True):
    """A running netgang, asked by its address."""

    url: str
    problem: str | None
    ready: bool = False
    reasons: tuple[str, ...] = ()
    probe: ProbeAgents | None = None  # `None`: the probe is off, or that replica does not lead


class Facts(msgspec.Struct, frozen=True):
    """Everything that was seen."""

    settings: Settings
    settings_from: str = "defaults"  # Where the settings were read, in words
    settings_problems: tuple[str, ...] = ()
    settings_seen: bool = True  # Whether these are netgang's settings; else the defaults, by which nothing is judged
    account: str = ""
    kubernetes: str | None = None
    denied: tuple[calls.Right, ...] | None = None
    scheduler: Json | None = None
    scheduler_from: str = ""
    scheduler_version: str | None = None
    service: ServiceAddress | None = None
    confined: frozenset[str] | None = None  # Names of the policies that confine the account
    wanted: int = 0  # Replicas that its Deployment asks for; 0: there is none, it runs by other means
    replicas: tuple[Replica, ...] | None = None
    lease: LeaseSeen | None = None
    nodes: tuple[Node, ...] | None = None
    gated: tuple[str, ...] | None = None  # Pods at our gate, namespace/name
    sources: Mapping[str, str | None] | None = None  # source → why it did not answer; `None`: it did
    endpoints: Mapping[str, Mapping[str, int]] | None = None  # metric → how many nodes of each state
    answered: Answered | None = None
    unseen: tuple[str, ...] = ()


def spec_of(resource: Json | None) -> Json:
    """The object's spec; empty: none."""
    return (resource or {}).get("spec") or {}


def needed(settings: Settings) -> frozenset[calls.Right]:
    """The rights that netgang needs, those in its own namespace among them."""
    leading = calls.LEADING if settings.leader_election else frozenset()
    tainting = calls.TAINTING if settings.network.taint is not None else frozenset()
    return calls.CALLS | calls.STARTED | leading | tainting


class Where(msgspec.Struct, frozen=True):
    """What to look at: the namespace netgang is installed in, and files that take the place of what is installed."""

    namespace: str = "netgang-system"
    config: Path | None = None
    scheduler_config: Path | None = None


class Look(msgspec.Struct):
    """One look; `facts` fills in what it saw, beside what files say."""

    api: OperatorApi
    where: Where
    files: Facts
    unseen: list[str] = []

    async def facts(self) -> Facts:
        """Everything of the cluster. Takes as long as a leader may take to renew its Lease, or a little more."""
        version = await self.api.get("/version") or {}
        looking = self._installed("deployments", NAME, group="/apis/apps/v1")
        deployment = await self._tried("its Deployment", looking, None)
        seen = await self._scheduler(await self._settings(deployment))
        account = f"system:serviceaccount:{self.where.namespace}:{NAME}"
        lost, (replicas, lease), confined, nodes, gated = await asyncio.gather(
            self._tried("rights", denied(self.api, seen.settings, account, self.where.namespace), None),
            self._tried("its pods", self._running(seen.settings), (None, None)),
            self._tried("the policies of its account", self._confined(account), None),
            self._tried("nodes", self._nodes(seen.settings), None),
            self._tried("pods", self._gated(), None),
        )
        return replace(
            seen,
            account=account,
            kubernetes=str(version.get("gitVersion", "")).removeprefix("v"),
            denied=lost,
            service=await self._tried("its Service", self._service(), None),
            confined=confined,
            wanted=int(spec_of(deployment).get("replicas", 1)) if deployment is not None else 0,
            replicas=replicas,
            lease=lease,
            nodes=nodes,
            gated=gated,
            unseen=tuple(self.unseen),
        )

    async def _tried(self, what: str, looking: Awaitable[_T], otherwise: _T) -> _T:
        try:
            return await looking
        except ApiError as error:
            self.unseen.append(f"{what}: {error.message}")
            return otherwise

    async def _installed(self, plural: str, name: str, *, group: str = "/api/v1") -> Json | None:
        return await self.api.get(f"{group}/namespaces/{self.where.namespace}/{plural}/{name}")

    async def _mounted(self, workload: Json, key: str) -> tuple[str, str] | None:
        for name in mounted(workload):
            data = (await self._installed("configmaps", name) or {}).get("data") or {}
            if key in data:
                return str(data[key]), f"ConfigMap {self.where.namespace}/{name}"
        return None

    async def _settings(self, deployment: Json | None) -> Facts:
        if self.where.config is not None:
            return self.files
        missing, entry = f"Deployment {self.where.namespace}/{NAME}", None
        if deployment is not None:
            missing = f"ConfigMap of {missing}"
            entry = await self._tried("settings", self._mounted(deployment, "netgang.yaml"), None)
        if deployment is None or entry is None:
            self.unseen.append(f"settings: no {missing} can be read, and nothing was checked against them")
            return replace(self.files, settings_from="nowhere", settings_seen=False)
        variables = _container_of(deployment).get("env") or ()
        plain = {variable["name"]: str(variable["value"]) for variable in variables if "value" in variable}
        return settings_of(entry[0], plain, origin=entry[1])

    async def _scheduler(self, seen: Facts) -> Facts:
        looking = self._installed("deployments", SCHEDULER, group="/apis/apps/v1")
        beside = await self._tried("its kube-scheduler", looking, None)
        config, origin = self.files.scheduler, self.files.scheduler_from
        if config is None and beside is not None:
            looked = self._mounted(beside, "scheduler.yaml")
            if (entry := await self._tried("kube-scheduler's configuration", looked, None)) is not None:
                config, origin = scheduler_of(entry[0], where=entry[1]), entry[1]
        if config is None and seen.settings.extender:
            self.unseen.append("kube-scheduler's configuration: it was not checked")
        version = version_of(str(_container_of(beside or {}).get("image", "")))
        return replace(seen, scheduler=config, scheduler_from=origin, scheduler_version=version)

    async def _service(self) -> ServiceAddress | None:
        if (service := await self._installed("services", NAME)) is None:
            return None
        spec = service["spec"]
        port = next((entry["port"] for entry in spec["ports"] if entry.get("name") in ("http", None)), 0)
        return ServiceAddress(NAME, self.where.namespace, port, str(spec.get("clusterIP", "")))

    async def _running(self, settings: Settings) -> tuple[tuple[Replica, ...] | None, LeaseSeen | None]:
        """Its pods and their Lease, which is looked at twice: a Lease's times are another clock's."""
        base = f"/api/v1/namespaces/{self.where.namespace}/pods"
        replicas: tuple[Replica, ...] = ()
        for pod in await self.api.listed(base, {"labelSelector": f"app.kubernetes.io/name={NAME}"}):
            meta, states = pod["metadata"], (pod.get("status") or {}).get("conditions") or ()
            ready = any(state["type"] == "Ready" and state["status"] == "True" for state in states)
            replicas += (Replica(meta["name"], ready=ready, role=(meta.get("labels") or {}).get(ROLE_LABEL, "")),)
        look = partial(self._installed, "leases", LEASE_NAME, group="/apis/coordination.k8s.io/v1")
        if (first := await look()) is None:
            return replicas, None
        await asyncio.sleep(LeaseTimes.for_duration(settings.lease.duration_s).renew_deadline_s)
        again = spec_of(await look())
        renewed = again.get("renewTime") != spec_of(first).get("renewTime")
        return replicas, LeaseSeen(str(again.get("holderIdentity") or ""), renewed=renewed)

    async def _confined(self, account: str) -> frozenset[str]:
        paths = (f"{_POLICIES}/v1/validatingadmission{ending}" for ending in ("policies", "policybindings"))
        listed = [await self.api.listed(path) for path in paths]
        policies, bindings = [{each["metadata"]["name"]: each for each in some} for some in listed]

        def confines(name: str) -> bool:
            conditions, binding = spec_of(policies.get(name)).get("matchConditions") or (), spec_of(bindings.get(name))
            refuses = binding.get("policyName") == name and "Deny" in (binding.get("validationActions") or ())
            return refuses and any(f"'{account}'" in str(condition.get("expression")) for condition in conditions)

        return frozenset(filter(confines, CONFINING))

    async def _nodes(self, settings: Settings) -> tuple[Node, ...]:
        label = settings.zone_label
        return tuple([node_from_json(item, zone_label=label) async for item in self.api.items("/api/v1/nodes")])

    async def _gated(self) -> tuple[str, ...]:
        pods = (pod_from_json(item) async for item in self.api.items("/api/v1/pods"))
        return tuple([pod.key async for pod in pods if pod.gated and not pod.deleting])


def of_files(where: Where) -> Facts:
    """What the files say, and defaults. Errors: ConfigError for a file that cannot be read."""
    seen = Facts(Settings())
    if where.config is not None:
        seen = settings_of(_text_of(where.config), {}, origin=f"file {where.config}")
    if where.scheduler_config is None:
        return seen
    name = f"file {where.scheduler_config}"
    config = scheduler_of(_text_of(where.scheduler_config), where=name)
    second = "default-scheduler" not in seen.settings.scheduler_names
    service = ServiceAddress(NAME, where.namespace, seen.settings.port) if second else None
    return replace(seen, scheduler=config, scheduler_from=name, service=service)


def settings_of(text: str, environment: Mapping[str, str], *, origin: str) -> Facts:
    """Settings of a file's text, under the NETGANG_… variables of a container; with problems the defaults.

    >>> settings_of("port: 9000", {"NETGANG_ELASTIC__ENABLED": "true"}, origin="").settings.elastic.enabled
    True
    """
    problems: tuple[str, ...]
    try:
        values = yaml.safe_load(text) or {}
        return Facts(Settings().changed(merge(values, from_environment(environment))), origin)
    except ConfigError as error:
        problems = tuple(str(error).splitlines())
    except (yaml.YAMLError, RecursionError, TypeError, AttributeError):
        problems = ("it is no YAML of names and values",)
    return Facts(Settings(), origin, problems)


def scheduler_of(text: str, *, where: str) -> Json:
    """The document with a kube-scheduler's configuration. Errors: ConfigError if it is no YAML mapping."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{where}: not YAML") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: holds no KubeSchedulerConfiguration")
    return document


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def _container_of(workload: Json) -> Json:
    spec = spec_of(workload)
    containers: Sequence[Json] = (spec_of(spec.get("template")) or spec).get("containers") or [{}]
    return containers[0]


def mounted(workload: Json) -> Iterator[str]:
    """Names of the ConfigMaps that its pods mount."""
    for volume in spec_of(spec_of(workload).get("template")).get("volumes") or ():
        if name := (volume.get("configMap") or {}).get("name"):
            yield str(name)


def version_of(image: str) -> str | None:
    """The version in an image's name; `None`: there is none, such as in a digest.

    >>> version_of("registry.k8s.io/kube-scheduler:v1.36.3@sha256:abc"), version_of("localhost:5000/kube-scheduler")
    ('1.36.3', None)
    """
    name, _, tag = image.partition("@")[0].rpartition(":")
    return tag.removeprefix("v") if name and "/" not in tag else None


async def ask_running(seen: Facts, url: str) -> Facts:
    """With readiness, sources and mapping of a running netgang. Errors: ConfigError for an address that is none."""
    try:
        _, body = await fetch(door(url), "/readyz")
        document = decoded(body, Readiness, where=url)
    except NetworkSourceError as error:
        return replace(seen, answered=Answered(url, str(error)))
    network = document.detail.network or NetworkSources(())
    answered = Answered(url, None, document.ready, document.reasons, network.probe or None)
    sources = {source.name: source.error for source in network.sources}
    endpoints = network.mapping.nodes if network.mapping else None
    return replace(seen, answered=answered, sources=sources, endpoints=endpoints)


async def denied(api: OperatorApi, settings: Settings, account: str, namespace: str) -> tuple[calls.Right, ...]:
    """Rights that `account`, its Lease in `namespace`, needs and has not. Errors: ApiError (403: we may not ask)."""
    myself = await api.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    own = myself["status"]["userInfo"].get("username") == account
    kind = "SelfSubjectAccessReview" if own else "SubjectAccessReview"
    accounts = "system:serviceaccounts"
    groups = [accounts, f"{accounts}:{namespace}", "system:authenticated"]  # that it is in without saying so
    subject = {} if own else {"user": account, "groups": groups}
    # Right → the object of netgang's own namespace for which it is needed
    at_home = dict.fromkeys(calls.LEADING, LEASE_NAME) | dict.fromkeys(calls.STARTED, STARTED_GANGS)

    async def may(right: calls.Right) -> bool:
        (verb, group, resource), name = right, at_home.get(right)
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural}
        attributes |= {"subresource": subresource} if subresource else {}
        attributes |= {"namespace": namespace} if name is not None else {}
        attributes |= {"name": name} if name is not None and verb != "create" else {}
        spec = {"resourceAttributes": attributes, **subject}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = await api.create(f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body)
        return bool(answer["status"]["allowed"])

    rights = sorted(needed(settings))
    answers = await asyncio.gather(*map(may, rights))
    return tuple(right for right, allowed in zip(rights, answers, strict=True) if not allowed)
