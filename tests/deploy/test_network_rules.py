"""The evaluator of network policies: the documentation's examples, and what always holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubernetes import Network, Peer, in_block, selects

SPACES = {"default": {}, "other": {}, "mine": {"project": "myproject"}}
DB = Peer("db", "default", {"role": "db"}, "10.1.0.1", {"redis": 6379})
FRONT = Peer("front", "default", {"role": "frontend"}, "10.1.0.2")
IDLE = Peer("idle", "default", {"role": "idle"}, "10.1.0.3")
MINE = Peer("mine", "mine", {"role": "idle"}, "10.1.0.4")
FAR = Peer("far", "other", {"role": "frontend"}, "10.1.0.5")
NEAR_HOST = Peer("near host", ip="172.17.9.9")
SHUT_HOST = Peer("shut host", ip="172.17.1.9")
EVERYBODY = [DB, FRONT, IDLE, MINE, FAR, NEAR_HOST, SHUT_HOST]


def policy(spec: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    return {"kind": "NetworkPolicy", "metadata": {"namespace": namespace}, "spec": spec}


def allowed(*specs: dict[str, Any], to: Peer = DB, port: int = 6379) -> set[str]:
    network = Network([policy(one) for one in specs], SPACES)
    return {one.name for one in EVERYBODY if one is not to and network.allows(one, to, port)}


# The page "Network Policies": isolation of role=db with ipBlock, namespaceSelector, podSelector.
PAGE: dict[str, Any] = {
    "podSelector": {"matchLabels": {"role": "db"}},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [
        {
            "from": [
                {"ipBlock": {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}},
                {"namespaceSelector": {"matchLabels": {"project": "myproject"}}},
                {"podSelector": {"matchLabels": {"role": "frontend"}}},
            ],
            "ports": [{"protocol": "TCP", "port": 6379}],
        }
    ],
    "egress": [
        {"to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}], "ports": [{"protocol": "TCP", "port": 5978}]}
    ],
}


def test_page_example_lets_in_whom_it_names() -> None:
    assert allowed(PAGE) == {"near host", "mine", "front"}
    assert allowed(PAGE, port=6380) == set()
    network = Network([policy(PAGE)], SPACES)
    inside, outside = Peer("a", ip="10.0.0.9"), Peer("b", ip="10.0.1.9")
    assert network.allows(DB, inside, 5978) and not network.allows(DB, inside, 5979)
    assert not network.allows(DB, outside, 5978)
    assert not network.allows(DB, inside, 5978, "UDP")


ALL = {one.name for one in EVERYBODY} - {"db"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, set()),
        ({"podSelector": {}}, set()),  # Ingress is a policy's type by default
        ({"podSelector": {}, "policyTypes": ["Egress"]}, {"mine", "far", "near host", "shut host"}),
        ({"podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"]}, ALL),
        ({"podSelector": {}, "ingress": [{"from": []}]}, ALL),  # an empty list names everybody
        ({"podSelector": {}, "ingress": []}, set()),
        ({"podSelector": {"matchLabels": {"role": "else"}}}, ALL),
        ({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}, {"front", "idle"}),
        (
            {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]},
            {"front", "idle", "mine", "far"},
        ),
        (  # one entry: both must hold
            {
                "podSelector": {},
                "ingress": [
                    {
                        "from": [
                            {
                                "namespaceSelector": {
                                    "matchLabels": {"kubernetes.io/metadata.name": "other"}
                                },
                                "podSelector": {"matchLabels": {"role": "frontend"}},
                            }
                        ]
                    }
                ],
            },
            {"far"},
        ),
    ],
)
def test_defaults_of_the_documentation(spec: dict[str, Any], expected: set[str]) -> None:
    assert allowed(spec) == expected


def test_nobody_is_restricted_without_a_policy_or_towards_itself() -> None:
    assert allowed() == ALL
    shut = policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    assert Network([shut], SPACES).allows(DB, DB, 6379)


def test_egress_key_makes_the_type_default() -> None:
    shut = policy({"podSelector": {}, "egress": []}, "other")
    assert not Network([shut], SPACES).allows(FAR, DB, 6379)
    assert not Network([shut], SPACES).allows(DB, FAR, 80)


def test_both_directions_must_allow() -> None:
    out = {
        "podSelector": {"matchLabels": {"role": "frontend"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"role": "db"}}}]}],
    }
    shut = {"podSelector": {"matchLabels": {"role": "db"}}}
    assert "front" in allowed(out)
    assert "front" not in allowed(out, shut)


@pytest.mark.parametrize(
    ("term", "port", "fits"),
    [
        ({"port": 32000, "endPort": 32768}, 32500, True),
        ({"port": 32000, "endPort": 32768}, 32768, True),
        ({"port": 32000, "endPort": 32768}, 32769, False),
        ({"port": "redis"}, 6379, True),
        ({"port": "redis"}, 6380, False),
        ({"port": "http"}, 6379, False),
        ({}, 1, True),
        ({"protocol": "UDP"}, 6379, False),
        ({"protocol": "UDP", "port": 6379}, 6379, False),
    ],
)
def test_ports_names_and_ranges(term: dict[str, Any], port: int, fits: bool) -> None:
    spec = {"podSelector": {}, "ingress": [{"ports": [term]}]}
    assert ("front" in allowed(spec, port=port)) is fits


@pytest.mark.parametrize(
    ("operator", "values", "taken"),
    [
        ("In", ["db"], {"db"}),
        ("NotIn", ["db"], {"none", "front"}),  # also what lacks the key
        ("Exists", None, {"db", "front"}),
        ("DoesNotExist", None, {"none"}),
    ],
)
def test_selector_expressions(operator: str, values: list[str] | None, taken: set[str]) -> None:
    labels = {"db": {"role": "db"}, "front": {"role": "front"}, "none": {"x": "y"}}
    term = {"key": "role", "operator": operator} | ({"values": values} if values else {})
    found = {name for name, own in labels.items() if selects({"matchExpressions": [term]}, own)}
    assert found == taken


def test_exceptions_of_a_block() -> None:
    block = {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}
    assert in_block(block, "172.17.0.1") and not in_block(block, "172.17.1.1")
    assert not in_block(block, "172.18.0.1") and not in_block(block, "fd00::1")


selectors = st.sampled_from(
    [{}, {"matchLabels": {"role": "db"}}, {"matchLabels": {"role": "frontend"}}]
)
terms = st.sampled_from(
    [
        {"podSelector": {}},
        {"podSelector": {"matchLabels": {"role": "idle"}}},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"project": "myproject"}}},
        {"ipBlock": {"cidr": "172.17.0.0/16", "except": ["172.17.1.0/24"]}},
    ]
)
ports = st.sampled_from([[], [{"port": 6379}], [{"port": "redis"}], [{"port": 1, "endPort": 7000}]])
rules = st.fixed_dictionaries({"from": st.lists(terms, max_size=2), "ports": ports}) | st.just({})
specs = st.fixed_dictionaries(
    {"podSelector": selectors, "ingress": st.lists(rules, max_size=2)},
    optional={"policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]])},
)
clusters = st.lists(specs, min_size=1, max_size=3)


@given(cluster=clusters, more=rules, port=st.sampled_from([80, 6379, 7000]))
def test_one_more_rule_never_takes_away(
    cluster: list[dict[str, Any]], more: dict[str, Any], port: int
) -> None:
    first = cluster[0] | {"ingress": [*cluster[0]["ingress"], more]}
    assert allowed(*cluster, port=port) <= allowed(first, *cluster[1:], port=port)


@given(cluster=clusters, spec=specs, port=st.sampled_from([80, 6379]))
def test_one_more_policy_never_takes_away_where_all_are_governed(
    cluster: list[dict[str, Any]], spec: dict[str, Any], port: int
) -> None:
    governed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [{}]}
    before = allowed(governed, *cluster, port=port)
    both = spec | {"policyTypes": ["Ingress", "Egress"]}
    assert before <= allowed(governed, *cluster, both, port=port)


@given(cluster=clusters, port=st.sampled_from([80, 6379]))
def test_order_of_policies_does_not_matter(cluster: list[dict[str, Any]], port: int) -> None:
    assert allowed(*cluster, port=port) == allowed(*reversed(cluster), port=port)
