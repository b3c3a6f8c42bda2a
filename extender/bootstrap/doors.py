"""What is served at which port: the verbs, people, probes.

Rule: with client certificates required, nothing that shows the cluster is served beside the verbs.
"""

from starlette.types import ASGIApp

from extender.api.auth import TokenAuth
from extender.api.doors import PROBES, Only
from extender.ports import Clock, Reviews
from extender.server.app import App
from extender.settings.settings import Settings
from extender.settings.tls import DebugAuth
from extender.web.routes import ADDRESSES


def ports_of(settings: Settings, app: App, clock: Clock, reviews: Reviews | None) -> tuple[ASGIApp, ASGIApp, ASGIApp]:
    """What is served at the verbs' port, at the one for people, and at the one for probes."""
    people: ASGIApp = app.for_people()
    if settings.debug_auth is DebugAuth.TOKEN:
        if reviews is None:
            raise ValueError("debug_auth is token, and no API server is there to review tokens")
        people = TokenAuth(people, reviews, clock, open_to_all=ADDRESSES)
    probes = Only(app, PROBES, elsewhere="this port has /healthz, /readyz and /metrics; documents are at debug_port")
    if settings.tls.client_ca_file is None:
        return app, people, probes
    documents = Only(app, PROBES, elsewhere="this port is kube-scheduler's alone; documents are at debug_port")
    return App(app.dispatch, documents), people, probes
