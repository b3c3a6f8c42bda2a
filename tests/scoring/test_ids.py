"""Names: a gang is named by its namespace and its group."""

from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import NO_ZONE, gang_key

DNS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


@given(st.tuples(DNS, DNS), st.tuples(DNS, DNS))
def test_keys_are_unique(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Kubernetes names contain no slash, so different (namespace, group) never share a key."""
    assert (gang_key(*one) == gang_key(*other)) == (one == other)


def test_no_zone_is_a_zone_with_an_empty_name() -> None:
    """Nodes without the label are of a zone that sorts before all others."""
    assert sorted(["a", NO_ZONE]) == ["", "a"]
