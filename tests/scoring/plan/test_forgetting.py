"""What a memo forgets of gangs that are gone: all of it, in steps, and nothing that is asked for meanwhile."""

from scoring.model.policy import Policy
from scoring.plan import Memo, plan
from scoring.plan.forgetting import keep_only
from tests.builders import gang, node, snapshot

NODES = [node(f"n{i}", zone="a", cpu="2") for i in range(4)]
KINDS = [gang(f"g{i:03}", 2, cpu="3", memory=f"{i}Mi", node_selector={"disk": f"d{i}"}) for i in range(400)]


def planned() -> Memo:
    """The memo of a plan of four hundred gangs, each of its own kind."""
    memo = Memo()
    plan(snapshot(NODES, KINDS), Policy(), now_s=0.0, memo=memo)
    assert len(memo.numbers) == len(memo.filter_numbers) == 400
    return memo


def test_it_takes_many_steps_and_leaves_nothing() -> None:
    """A handful of classes a step; in the end those of the gangs that are there are known, and no others."""
    memo, here = planned(), {one.key for one in KINDS[:100]}
    known = {one.members[0].member_class: memo.number(one.members[0].member_class) for one in KINDS[:100]}
    assert sum(1 for _ in keep_only(memo, here)) > 300 / 16
    assert memo.numbers == known
    assert len(memo.number_of_object) <= 200
    tables = (memo.filters, memo.filter_numbers, memo.vectors)
    assert [len(one) for one in tables] == [100, 100, 100]
    assert memo.asked_for is None


def test_few_that_are_gone_are_kept() -> None:
    """Going through all tables is not worth it for each gang."""
    memo = planned()
    assert list(keep_only(memo, {one.key for one in KINDS[60:]})) == []
    assert len(memo.numbers) == 400


def test_what_is_asked_for_meanwhile_keeps_its_number() -> None:
    """Another plan begins between any two steps, and asks for a class that no demand named when the look began."""
    whole = sum(1 for _ in keep_only(planned(), {one.key for one in KINDS[:100]}))
    for stop in range(whole):
        memo = planned()
        late, new = KINDS[-1].members[0].member_class, gang("new", 1, cpu="7").members[0].member_class
        before = memo.number(late)
        steps = keep_only(memo, {one.key for one in KINDS[:100]})
        for _ in range(stop):
            next(steps)
        numbers, looking = (memo.number(late), memo.number(new)), memo.asked_for is not None
        for _ in steps:
            pass
        if looking:
            assert (memo.numbers[late], memo.numbers[new]) == numbers
        assert min(numbers) >= before
        assert len(set(memo.numbers.values())) == len(memo.numbers) <= 102


def test_two_never_forget_at_once() -> None:
    """A plan of fewer gangs begins meanwhile: it leaves it to the one that is at it, whose notes stay complete."""
    memo, late = planned(), KINDS[-1].members[0].member_class
    steps = keep_only(memo, {one.key for one in KINDS[:200]})
    for stop, _ in enumerate(steps):
        assert list(keep_only(memo, {one.key for one in KINDS[:50]})) == []
        number = memo.number(late)
        assert stop < 5 or memo.numbers[late] == number
    assert memo.numbers[late] == memo.number(late)
    assert len(memo.numbers) == 201


def test_a_look_that_is_given_up_is_no_harm() -> None:
    """The planner starts again when it must: what was not forgotten yet is the next time."""
    memo = planned()
    steps = keep_only(memo, {one.key for one in KINDS[:100]})
    for _ in range(6):
        next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert memo.asked_for is None
    state = snapshot(NODES, KINDS[:200], version=2)
    assert plan(state, Policy(), now_s=0.0, memo=memo) == plan(state, Policy(), now_s=0.0)


def test_plans_between_the_steps_are_right() -> None:
    """Whoever plans between two steps, of the gangs that were or of those that are, plans as without a memo."""
    memo, policy = planned(), Policy()
    states = [snapshot(NODES, some, version=version) for version, some in enumerate((KINDS[:50], KINDS), start=2)]
    wanted = [plan(state, policy, now_s=0.0) for state in states]
    steps = keep_only(memo, {one.key for one in KINDS[:100]})
    for number, _ in enumerate(steps):
        if number % 7 == 0:
            found = [plan(state, policy, now_s=0.0, memo=memo) for state in states]
            assert found == wanted
