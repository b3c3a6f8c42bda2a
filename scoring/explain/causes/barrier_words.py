"""What each kind of barrier is in words: a clause that says how many nodes have it, and what helps."""

from collections.abc import Mapping, Sequence
from typing import Final

from scoring.explain.causes.barriers import Barrier, Kind
from scoring.explain.words import counted, some

_NAMED: Final = 3

_WORDS: Final[Mapping[Kind, tuple[str, str]]] = {  # kind → (clause, remedy); {of}: as "2 of 3 nodes of zone a"
    Kind.CORDONED: ("{of} {is_} cordoned", "kubectl uncordon {first}"),
    Kind.NOT_READY: ("{of} {is_} not ready", "See why {names} {is_} not ready: kubectl describe node."),
    Kind.LEAVING: (
        "{of} {is_} out of service or about to be removed",
        "Wait for new nodes, or allow other zones.",
    ),
    Kind.TAINT: (
        "{of} {has} taint {what}, which the pods do not tolerate",
        "Add a toleration of {what} to the pod template, if the pods may run there.",
    ),
    Kind.LABEL: (
        "{of} {lacks} labels of the pods' nodeSelector or node affinity",
        "Label more nodes, or ask for fewer labels.",
    ),
    Kind.PORT: (
        "host port {what} is taken on {of}",
        "Drop hostPort from the pod template, or wait until the pods that have it end.",
    ),
    Kind.REFUSED: (
        "filters of kube-scheduler that netgang does not model refuse {of}",
        "The Event FailedScheduling of the pods says which filter: volumes, affinity between pods, spreading.",
    ),
}


def barrier_words(barrier: Barrier, at: Sequence[str], among: int, where: str) -> tuple[str, str]:
    """The clause and the remedy for a barrier on nodes `at`, of the `among` nodes of `where`.

    >>> barrier_words(Barrier(Kind.CORDONED), ["n1", "n2"], 3, "zone a")
    ('2 of 3 nodes of zone a are cordoned', 'kubectl uncordon n1 n2')
    """
    is_, has, lacks = ("is", "has", "lacks") if len(at) == 1 else ("are", "have", "lack")
    clause, remedy = (
        words.format(
            of=f"{len(at)} of {counted(among, 'node')} of {where}",
            what=barrier.what,
            names=some(at, _NAMED),
            first=" ".join(at[:_NAMED]) + (" …" if len(at) > _NAMED else ""),
            is_=is_,
            has=has,
            lacks=lacks,
        )
        for words in _WORDS[barrier.kind]
    )
    return clause, remedy
