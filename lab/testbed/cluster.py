"""A whole control plane as child processes: etcd, kube-apiserver, kwok, kube-schedulers, optionally controllers.

Why: tests need one that starts in seconds, can lose or freeze any part, and is gone afterwards.
Rule: everything it writes is in one temporary directory, everything it starts is its own child, everything listens on
loopback. A part keeps its port and files over a restart, so every other part finds it again.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import aiohttp
import yaml

from lab.testbed.api import Api, Object
from lab.testbed.errors import ApiRefused, ControlPlaneError
from lab.testbed.processes import stages
from lab.testbed.processes.credentials import User, kubeconfig, service_account, signing_key, token_file, user
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child
from lab.testbed.processes.schedulers import PLAIN, Document, load_configuration, on_testbed
from lab.testbed.programs import build
from lab.testbed.programs.catalogue import KUBERNETES, Version

ADMIN = "admin"
SCHEDULER = "kube-scheduler"
INSTALLED_IN = "netgang-system"  # the namespace of manifests/
NETGANG = "netgang"
NETGANG_SCHEDULER = "netgang-scheduler"
_OPEN_PATHS = "/healthz,/readyz,/livez,/metrics"  # of kube-scheduler, without a token
_START_LIMIT_S = 60.0
_ACCOUNT_CONTROLLER = "serviceaccount-controller"
JOB_CONTROLLERS = ("job-controller", "garbage-collector-controller", "namespace-controller")
"""Jobs make pods, deleted owners and namespaces take theirs along; pods still need no service account."""
CONTROLLERS = (
    *JOB_CONTROLLERS,
    _ACCOUNT_CONTROLLER,
    "daemonset-controller",
    "disruption-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
    "statefulset-controller",
)


class Cluster:
    """A control plane; `async with Cluster() as cluster`, or plain `with` where no event loop runs.

    `users` are identities beside admin, kube-scheduler, and the two service accounts of manifests/ (netgang,
    netgang-scheduler), which have no rights until `service.install_rights` applies those files.
    `controllers` names kube-controller-manager's controllers (JOB_CONTROLLERS, CONTROLLERS); empty: it is neither
    built nor started, and owners are just references. Pods need a service account only if a controller makes them.
    `stage_names` says what kwok does, see `stages`. `audited` names identities whose writes the API server records, see
    `audit_log`. `version` is that of Kubernetes' own programs.
    """

    def __init__(
        self,
        *,
        users: Iterable[User] = (),
        controllers: Sequence[str] = (),
        stage_names: Sequence[str] = stages.FAST,
        audited: Sequence[str] = (),
        version: Version = KUBERNETES,
    ) -> None:
        standing = (
            user(ADMIN, "admin", "system:masters"),
            user(SCHEDULER, "system:kube-scheduler", "system:authenticated"),
            service_account(INSTALLED_IN, NETGANG),
            service_account(INSTALLED_IN, NETGANG_SCHEDULER),
        )
        self._users = {one.name: one for one in (*standing, *users)}  # name in kubeconfigs → identity
        self._controllers = tuple(controllers)
        self._stage_names = tuple(stage_names)
        self._audited = tuple(self._users[name].username for name in audited)
        self.version = version
        self._parts: dict[str, Child] = {}  # in start order
        self._ready_urls: dict[str, str] = {}  # part → URL that answers 200 when it is ready
        self._directory: Path | None = None
        self._server = ""

    @property
    def directory(self) -> Path:
        """Everything the cluster writes: kubeconfigs, configurations, logs, etcd's data."""
        if self._directory is None:
            raise ControlPlaneError("the cluster is not running")
        return self._directory

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._server

    @property
    def audit_log(self) -> Path:
        """A line of JSON (audit.k8s.io/v1 Event, level Metadata) for each write of an audited identity."""
        return self.directory / "audit.jsonl"

    @property
    def parts(self) -> Mapping[str, Child]:
        """Name → child process, in start order: etcd, kube-apiserver, kwok, schedulers, services."""
        return self._parts

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self.start())
        return self

    def __exit__(self, *_: object) -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self.stop())

    async def start(self) -> None:
        """Build what is missing, then start etcd, the API server, kwok and the controllers; about 5 s warm.

        Nothing keeps running if it fails: ControlPlaneError.
        """
        if self._directory is not None:
            raise ControlPlaneError("the cluster runs already")
        names = ["etcd", "kube-apiserver", "kwok", *(["kube-controller-manager"] if self._controllers else [])]
        programs = build.ensure_all(names, version=self.version)
        stage_files = build.ensure_asset("kwok-stages")
        self._directory = Path(tempfile.mkdtemp(prefix="netgang-testbed-"))
        try:
            etcd_url = await self._start_etcd(programs["etcd"])
            await self._start_apiserver(programs["kube-apiserver"], etcd_url)
            await self._start_kwok(programs["kwok"], stage_files)
            if self._controllers:
                await self._start_controllers(programs["kube-controller-manager"])
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop every part, the last started first, and remove the directory; fine if nothing runs."""
        for name in reversed(tuple(self._parts)):
            await self.remove(name)
        if self._directory is not None:
            shutil.rmtree(self._directory)
            self._directory = None

    def api(self, account: str = ADMIN) -> Api:
        """A client with the rights of `account`; use it with `async with`, one per event loop."""
        return Api(self._server, token=self._users[account].token, certificate_authority=self._authority)

    def kubeconfig(self, account: str = ADMIN) -> Path:
        """The kubeconfig of `account`, written on first use."""
        path = self.directory / f"{account}.kubeconfig"
        if not path.exists():
            text = kubeconfig(self._server, self._users[account], certificate_authority=self._authority)
            path.write_text(text)
            path.chmod(0o600)
        return path

    async def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl and return its output; `text` is its standard input. ControlPlaneError if it fails."""
        command = (str(build.ensure_program("kubectl")), f"--kubeconfig={self.kubeconfig()}", *arguments)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        out, err = await process.communicate(text.encode() if text is not None else None)
        if process.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} failed: {err.decode().strip()}")
        return out.decode()

    async def add_nodes(self, nodes: Iterable[Object]) -> None:
        """Create nodes (see `objects.node`) and wait until kube-scheduler would use them: Ready, untainted.

        Without a node lifecycle controller nothing takes away the not-ready taint that admission adds: done here.
        """
        async with self.api() as api:
            names = {one["metadata"]["name"] for one in await api.create_all(nodes)}
            for name in sorted(names):
                await api.patch("Node", name, [{"op": "add", "path": "/spec/taints", "value": []}])

            def all_ready(found: list[Object]) -> bool:
                return names <= {one["metadata"]["name"] for one in found if is_ready(one)}

            await api.until(lambda: api.list_all("Node"), all_ready, what=f"{len(names)} nodes Ready")

    async def start_scheduler(
        self,
        configuration: Document | Path = PLAIN,
        *,
        name: str = "kube-scheduler",
        extender: str | None = None,
        account: str = SCHEDULER,
        feature_gates: Mapping[str, bool] | None = None,
        program: Path | None = None,
    ) -> Child:
        """Start a kube-scheduler with this configuration (see `schedulers.on_testbed`); returns when it is ready.

        `extender` is the base URL of netgang; `feature_gates` maps a gate to its value; `program` is one that takes the
        same flags, in place of the cluster's own version. The scheduler's own warnings and errors are in its log.
        """
        program = program or build.ensure_program("kube-scheduler", self.version)
        config = self.directory / f"{name}.yaml"
        access = self.kubeconfig(account)
        given = load_configuration(configuration)
        ready = on_testbed(given, kubeconfig=access, extender=extender)
        config.write_text(yaml.safe_dump(ready, sort_keys=False))
        (port,) = free_ports(1)
        gates = ",".join(f"{gate}={str(value).lower()}" for gate, value in (feature_gates or {}).items())
        return await self.start_part(
            name,
            [
                program,
                f"--config={config}",
                f"--authentication-kubeconfig={access}",
                "--authentication-skip-lookup=true",  # this API server has no client CA to look up
                f"--authorization-kubeconfig={access}",
                f"--authorization-always-allow-paths={_OPEN_PATHS}",
                *self._serving(name, port),
                *([f"--feature-gates={gates}"] if gates else []),
            ],
            ready_url=f"https://{LOOPBACK}:{port}/readyz",
        )

    async def start_part(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        ready_url: str,
        env: Mapping[str, str] | None = None,
        limit_s: float = _START_LIMIT_S,
    ) -> Child:
        """Start any program as a part and wait until `ready_url` answers 200. It stops with the cluster.

        One that does not become ready is stopped and forgotten; its log file stays.
        """
        if name in self._parts:
            raise ControlPlaneError(f"there is a part named {name} already")
        log = self.directory / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)  # of an earlier part of this name
        child = Child(name, [str(one) for one in argv], log=log, env=env)
        self._parts[name] = child
        self._ready_urls[name] = ready_url
        child.start()
        try:
            await self.until_ready(name, limit_s=limit_s)
        except BaseException:
            await self.remove(name)
            raise
        return child

    async def until_ready(self, name: str, *, limit_s: float = _START_LIMIT_S) -> None:
        """Wait until a part answers on its readiness URL; ControlPlaneError or NotReady with the end of its log."""
        context = ssl.create_default_context()  # the parts sign their own certificates
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {self._users[ADMIN].token}"}
        limit = aiohttp.ClientTimeout(total=5.0)
        async with aiohttp.ClientSession(headers=headers, timeout=limit) as session:

            async def answers() -> bool:
                try:
                    async with session.get(self._ready_urls[name], ssl=context) as reply:
                        return reply.status == 200
                except (aiohttp.ClientError, TimeoutError):
                    return False

            await self._parts[name].ready(answers, limit_s=limit_s)

    async def restart(self, name: str, *, crash: bool = False) -> None:
        """Stop a part (or, with `crash`, kill it) and start it again on the same port; returns when it is ready."""
        child = self._parts[name]
        await (child.kill() if crash else child.stop())
        child.start()
        await self.until_ready(name)

    async def remove(self, name: str) -> None:
        """Stop a part for good; its name can be used again."""
        await self._parts[name].stop()
        del self._parts[name]
        del self._ready_urls[name]

    async def install(self, asset: str) -> None:
        """Apply all files of an asset (see `programs.ASSETS`), and wait until the kinds it defines are served."""
        directory = build.ensure_asset(asset)
        async with self.api() as api:
            for path in sorted(directory.iterdir()):
                for item in await api.apply(path):
                    if item["kind"] == "CustomResourceDefinition":
                        await _until_served(api, item)

    def check_alive(self) -> None:
        """ControlPlaneError, with the end of its log, if a part ended although it was not stopped."""
        for name, child in self._parts.items():
            if child.pid is not None and not child.alive:
                raise ControlPlaneError(f"{name} ended by itself; its log ends with:\n{child.tail()}")

    def dump_logs(self, target: Path) -> None:
        """Copy all logs and configurations (not the credentials) to `target`."""
        target.mkdir(parents=True, exist_ok=True)
        for path in (*self.directory.glob("logs/*.log"), *self.directory.glob("*.yaml")):
            shutil.copy(path, target / path.name)

    @property
    def _authority(self) -> Path:
        return self.directory / "kube-apiserver" / "apiserver.crt"

    async def _start_etcd(self, program: Path) -> str:
        client, peer = (f"http://{LOOPBACK}:{port}" for port in free_ports(2))
        argv: list[str | Path] = [
            program,
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        await self.start_part("etcd", argv, ready_url=f"{client}/health")
        return client

    async def _start_apiserver(self, program: Path, etcd_url: str) -> None:
        (port,) = free_ports(1)
        self._server = f"https://{LOOPBACK}:{port}"
        key = self.directory / "service-accounts.key"
        key.write_text(signing_key())
        tokens = self.directory / "tokens.csv"
        tokens.write_text(token_file(self._users.values()))
        for secret in (key, tokens):
            secret.chmod(0o600)
        argv: list[str | Path] = [
            program,
            f"--etcd-servers={etcd_url}",
            *self._serving("kube-apiserver", port),
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as everywhere: what may be privileged is for Pod Security to say
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            *([] if _ACCOUNT_CONTROLLER in self._controllers else ["--disable-admission-plugins=ServiceAccount"]),
            *self._auditing(),
        ]
        await self.start_part("kube-apiserver", argv, ready_url=f"{self._server}/readyz")

    def _auditing(self) -> list[str]:
        """Flags that make the API server record what the audited identities write, once each request is answered."""
        if not self._audited:
            return []
        policy = self.directory / "audit-policy.yaml"
        writes = ["create", "update", "patch", "delete", "deletecollection"]
        document = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{"level": "Metadata", "users": list(self._audited), "verbs": writes}],
        }
        policy.write_text(yaml.safe_dump(document, sort_keys=False))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]

    async def _start_kwok(self, program: Path, stage_files: Path) -> None:
        (port,) = free_ports(1)
        configs = stages.write_stages(stage_files, self.directory / "stages", self._stage_names)
        argv: list[str | Path] = [
            program,
            f"--kubeconfig={self.kubeconfig()}",
            "--manage-all-nodes=true",
            f"--node-ip={LOOPBACK}",
            f"--server-address={LOOPBACK}:{port}",
            *(f"--config={path}" for path in configs),
        ]
        await self.start_part("kwok", argv, ready_url=f"http://{LOOPBACK}:{port}/healthz")

    async def _start_controllers(self, program: Path) -> None:
        (port,) = free_ports(1)
        access = self.kubeconfig()
        argv: list[str | Path] = [
            program,
            f"--kubeconfig={access}",
            f"--authentication-kubeconfig={access}",
            "--authentication-skip-lookup=true",
            f"--authorization-kubeconfig={access}",
            "--leader-elect=false",
            "--kube-api-qps=200",  # else the garbage collector deletes twenty objects a second
            f"--controllers={','.join(self._controllers)}",
            f"--service-account-private-key-file={self.directory / 'service-accounts.key'}",
            f"--root-ca-file={self._authority}",  # for pods, if they are to have it
            *self._serving("kube-controller-manager", port),
        ]
        url = f"https://{LOOPBACK}:{port}/healthz"
        await self.start_part("kube-controller-manager", argv, ready_url=url)

    def _serving(self, name: str, port: int) -> list[str]:
        """Flags that make one of Kubernetes' programs listen on loopback with a certificate of its own."""
        return [f"--bind-address={LOOPBACK}", f"--secure-port={port}", f"--cert-dir={self.directory / name}"]


async def _until_served(api: Api, definition: Object) -> None:
    """A new kind is discovered first and can be listed a little later: 429 until its cache is filled."""
    kind = definition["spec"]["names"]["kind"]

    async def listable() -> bool:
        try:
            await api.list_all(kind)
        except ApiRefused:
            return False
        return True

    await api.until(listable, bool, what=f"{kind} served")


def is_ready(node: Object) -> bool:
    """Whether a node has the condition Ready=True and no not-ready taint."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))
