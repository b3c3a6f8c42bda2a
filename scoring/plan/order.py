"""Whose turn it is: the order in which gangs are planned.

Gangs that run in part come first, because only they hold room without doing work (DESIGN §5). Then priority, then age,
then name (DESIGN §4). The queue's weights and starvation will enter here, between priority and age, and nowhere else.
"""

from scoring.plan.ask import Ask

OrderKey = tuple[bool, int, float, str]


def order_key(ask: Ask) -> OrderKey:
    """Sort key of a gang; smaller is planned first."""
    gang = ask.gang
    return (not ask.partial, -gang.priority, gang.created_s, gang.key)
