"""Put the page together: what it looks at, its feed, its addresses.

Why apart: it reads of nearly every part and changes none.
"""

from dataclasses import dataclass

from fastapi import APIRouter

from extender.web.feed import Feed
from extender.web.mesh import mesh_document
from extender.web.moment import Document, Watched, sections_in_steps
from extender.web.routes import page_router
from scoring.network.matrix import Metric


@dataclass(frozen=True, slots=True)
class Page:
    """What is served of the page, and what keeps it fresh."""

    feed: Feed
    router: APIRouter


def page_of(watched: Watched) -> Page:
    """The page over what it looks at; its feed wants to be run."""
    feed = Feed(lambda: sections_in_steps(watched), watched.version)

    def mesh(metric: Metric, zone: str | None) -> Document | None:
        snapshot = watched.planner.snapshot or watched.cache.snapshot()
        return mesh_document(snapshot, watched.planner.policy.score, metric=metric, zone=zone)

    return Page(feed, page_router(feed, mesh))
