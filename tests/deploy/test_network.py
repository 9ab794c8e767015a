"""Who reaches whom in the shipped cluster: all pairs, all ports that matter, base and overlays."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from support.kubernetes import (
    CLUSTERS,
    Network,
    Object,
    Peer,
    of_kind,
    peers_of,
    selects,
    title,
    whole_cluster,
)

CLIENT = {"lessons-loop/client": "true", "app": "open-webui"}
DNS = {"k8s-app": "kube-dns"}
PORTS = [53, 80, 443, 5353, 8000, 8080, 10250, 11434]
SPACES: dict[str, dict[str, str]] = {
    name: {} for name in ("lessons", "open-webui", "ollama", "kube-system", "elsewhere")
}
CHROMA, PROXY = "StatefulSet/lessons-chroma", "Deployment/lessons-proxy"
GATE, DESK, EVAL = "CronJob/lessons-gate", "Deployment/lessons-desk", "CronJob/lessons-eval"
WORKERS = (GATE, DESK, EVAL)

OTHERS = [
    Peer("chat here", "lessons", CLIENT, "10.0.1.2"),
    Peer("chat", "open-webui", CLIENT, "10.0.1.3"),
    Peer("chat without label", "open-webui", {"app": "open-webui"}, "10.0.1.4"),
    Peer("label elsewhere", "elsewhere", CLIENT, "10.0.1.5"),
    Peer("gate's name elsewhere", "elsewhere", {"app.kubernetes.io/name": "lessons-gate"}),
    Peer("stranger here", "lessons", {"app": "x"}, "10.0.1.6"),
    Peer("dns", "kube-system", DNS, "10.0.1.7"),
    Peer("node's dns", ip="169.254.20.10"),
    Peer("ollama", "ollama", {"app.kubernetes.io/name": "ollama"}, "10.0.1.8"),
    Peer("other of ollama", "ollama", {"app": "x"}, "10.0.1.9"),
    Peer("cloud's own address", ip="169.254.169.254"),
    Peer("api server", ip="10.96.0.1"),
    Peer("model", ip="203.0.113.10"),
    Peer("model's neighbour", ip="203.0.113.11"),
    Peer("internet", ip="198.51.100.7"),
]
Flow = tuple[str, str, int, str]


def network(objects: list[Object]) -> Network:
    return Network(of_kind(objects, "NetworkPolicy"), SPACES)


def flows(objects: list[Object]) -> set[Flow]:
    """Return every allowed connection that has one of our pods at an end."""
    ours, rules = peers_of(objects), network(objects)
    everybody = [*ours, *OTHERS]
    mine = {one.name for one in ours}
    return {
        (source.name, target.name, port, protocol)
        for source in everybody
        for target in everybody
        if source is not target and {source.name, target.name} & mine
        for port in PORTS
        for protocol in ("TCP", "UDP")
        if rules.allows(source, target, port, protocol)
    }


def expected(layer: str) -> set[Flow]:
    names = {
        (source, target, 53, protocol)
        for source in (PROXY, *WORKERS)
        for target in ("dns", "node's dns")
        for protocol in ("TCP", "UDP")
    }
    store = {(source, CHROMA, 8000, "TCP") for source in (PROXY, *WORKERS)}
    chats = {"base": ["chat here"], "small": ["chat here", "chat"], "production": ["chat"]}
    asked = {(chat, PROXY, 8080, "TCP") for chat in chats[layer]}
    model = {"base": None, "small": ("ollama", 11434), "production": ("model", 443)}[layer]
    models = {(source, *model, "TCP") for source in WORKERS} if model else set()
    return names | store | asked | models


@pytest.mark.parametrize("layer", CLUSTERS)
def test_exactly_these_connections_are_allowed(layer: str) -> None:
    found = flows(whole_cluster(layer))
    assert found == expected(layer), sorted(found ^ expected(layer))


@pytest.mark.parametrize("layer", CLUSTERS)
def test_open_webui_never_reaches_chroma_or_gate(layer: str) -> None:
    objects = whole_cluster(layer)
    rules, ours = network(objects), {one.name: one for one in peers_of(objects)}
    for client in (one for one in OTHERS if one.labels.get("lessons-loop/client")):
        for name in (CHROMA, *WORKERS):
            ways = [rules.allows(client, ours[name], port) for port in range(1, 65536, 13)]
            ways += [rules.allows(client, ours[name], port) for port in PORTS]
            assert not any(ways), (client, name)


@pytest.mark.parametrize("layer", CLUSTERS)
def test_every_pod_of_ours_is_shut_both_ways_first(layer: str) -> None:
    objects = whole_cluster(layer)
    deny = [
        one["spec"]
        for one in of_kind(objects, "NetworkPolicy")
        if not one["spec"].get("ingress") and not one["spec"].get("egress")
    ]
    for pod in peers_of(objects):
        shut = [one for one in deny if selects(one["podSelector"], pod.labels)]
        assert {"Ingress", "Egress"} <= {way for one in shut for way in one["policyTypes"]}, pod


@pytest.mark.parametrize("layer", CLUSTERS)
def test_every_policy_says_its_types_and_selects_a_pod(layer: str) -> None:
    objects = whole_cluster(layer)
    pods = peers_of(objects)
    for one in of_kind(objects, "NetworkPolicy"):
        body = one["spec"]
        assert body["policyTypes"], one
        assert any(selects(body["podSelector"], pod.labels) for pod in pods), one
        for rule in [*(body.get("ingress") or ()), *(body.get("egress") or ())]:
            assert rule.get("ports") and (rule.get("from") or rule.get("to")), rule


def open_ingress(spec: dict[str, Any]) -> None:
    spec["ingress"] = [{}]


def open_egress(spec: dict[str, Any]) -> None:
    spec["egress"] = [{}]


def any_namespace(spec: dict[str, Any]) -> None:
    spec["ingress"][0]["from"][0]["namespaceSelector"] = {}


def no_ports(spec: dict[str, Any]) -> None:
    spec["egress"][-1].pop("ports")


@pytest.mark.parametrize(
    ("policy", "change"),
    [
        ("lessons-chroma", open_ingress),
        ("lessons-chroma", open_egress),
        ("lessons-chroma", any_namespace),
        ("lessons-proxy", any_namespace),
        ("lessons-proxy", open_egress),
        ("lessons-gate", open_ingress),
        ("lessons-gate", open_egress),
        ("lessons-gate", no_ports),
    ],
)
def test_pairs_see_a_policy_that_was_opened(policy: str, change: Any) -> None:
    objects = deepcopy(whole_cluster("base"))
    for one in of_kind(objects, "NetworkPolicy"):
        if one["metadata"]["name"] == policy:
            change(one["spec"])
    assert flows(objects) > expected("base")


def test_pairs_see_a_missing_default() -> None:
    kept = [
        one
        for one in whole_cluster("base")
        if title(one) not in ("NetworkPolicy/lessons-default-deny", "NetworkPolicy/lessons-gate")
    ]
    assert (GATE, "internet", 443, "TCP") in flows(kept)
