"""Rendered Kubernetes objects: read, rendered anew, and who may talk to whom.

Covered: NetworkPolicies of networking.k8s.io/v1 over pods and outside addresses (podSelector,
namespaceSelector, ipBlock with except, ports with names and endPort, both directions).
Not covered: host-network pods, the node's own traffic (always let in), what a network plugin
leaves out.
"""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
LAYERS = {
    "base": "base",
    "small": "overlays/small",
    "production": "overlays/production",
    "evaluation": "overlays/evaluation",
}
CLUSTERS = ("base", "small", "production")
"""What stands by itself; the evaluation is applied beside one of them."""
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
Object = dict[str, Any]


def load_objects(layer: str) -> list[Object]:
    """Return the committed rendering of a layer."""
    return list(yaml.safe_load_all((DEPLOY / "rendered" / f"{layer}.yaml").read_text()))


def whole_cluster(layer: str) -> list[Object]:
    """Return all objects of a cluster, an evaluation's among them."""
    return load_objects(layer) + load_objects("evaluation")


@cache
def rendered_now(layer: str) -> str:
    """Return what kubectl renders from the tree."""
    return kustomized(DEPLOY / LAYERS[layer])


def kustomized(folder: Path) -> str:
    """Return what kubectl renders from a folder."""
    call = ["kubectl", "kustomize", str(folder)]
    return subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout


def named(objects: Sequence[Object], kind: str, name: str) -> Object:
    """Return one object; StopIteration where there is none."""
    return next(one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name))


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    """Return the objects of some kinds."""
    return [one for one in objects if one["kind"] in kinds]


def title(one: Object) -> str:
    """Return kind and name, for messages."""
    return f"{one['kind']}/{one['metadata']['name']}"


def pod_template(workload: Object) -> Object:
    """Return metadata and spec of the pods a workload makes."""
    spec = workload["spec"]
    found: Object = (spec["jobTemplate"]["spec"] if workload["kind"] == "CronJob" else spec)[
        "template"
    ]
    return found


def pods(objects: Sequence[Object]) -> Iterator[tuple[str, Object]]:
    """Yield each workload's title with its pod template."""
    for one in of_kind(objects, *WORKLOADS):
        yield title(one), pod_template(one)


def containers(template: Object) -> list[Object]:
    """Return all containers of a pod, init ones first."""
    spec = template["spec"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [one for kind in kinds for one in spec.get(kind, ())]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Say whether a label selector takes labels; the empty one takes all."""
    exact = selector.get("matchLabels") or {}
    terms = selector.get("matchExpressions") or ()
    return exact.items() <= labels.items() and all(_holds(term, labels) for term in terms)


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term["key"]), term.get("values") or ()
    match term["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"operator {term['operator']!r} is none of the API's")


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod, or an address outside the cluster (no namespace)."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ip: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Named container ports."""


class Network:
    """The NetworkPolicies of a cluster, enforced as the API's documentation says."""

    def __init__(
        self, policies: Sequence[Object], namespaces: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._policies = policies
        self._namespaces = {
            name: {"kubernetes.io/metadata.name": name, **labels}
            for name, labels in namespaces.items()
        }

    def allows(self, source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
        """Say whether a connection is let out of its source and into its target."""
        if source is target:
            return True
        asked = (target, port, protocol)
        return self._passes("Egress", source, target, asked) and self._passes(
            "Ingress", target, source, asked
        )

    def _passes(self, way: str, subject: Peer, other: Peer, asked: tuple[Peer, int, str]) -> bool:
        governing = [one for one in self._policies if governs(one, subject, way)]
        rules = [rule for one in governing for rule in one["spec"].get(way.lower()) or ()]
        side = "from" if way == "Ingress" else "to"
        return not governing or any(
            _port_fits(rule.get("ports"), *asked)
            and self._fits(rule.get(side), other, governing_namespace=subject.namespace)
            for rule in rules
        )

    def _fits(
        self, terms: Sequence[Mapping[str, Any]] | None, peer: Peer, governing_namespace: str
    ) -> bool:
        return not terms or any(self._is(term, peer, governing_namespace) for term in terms)

    def _is(self, term: Mapping[str, Any], peer: Peer, home: str) -> bool:
        if block := term.get("ipBlock"):
            return bool(peer.ip) and in_block(block, peer.ip)
        if not peer.namespace:
            return False
        spaces = term.get("namespaceSelector")
        at_home = peer.namespace == home
        near = at_home if spaces is None else selects(spaces, self._namespaces[peer.namespace])
        return near and selects(term.get("podSelector") or {}, peer.labels)


def governs(policy: Object, pod: Peer, way: str) -> bool:
    """Say whether a policy restricts a pod in that direction."""
    spec = policy["spec"]
    default = ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return (
        bool(pod.namespace)
        and pod.namespace == policy["metadata"].get("namespace", "default")
        and way in (spec.get("policyTypes") or default)
        and selects(spec.get("podSelector") or {}, pod.labels)
    )


def in_block(block: Mapping[str, Any], ip: str) -> bool:
    """Say whether an address is in a block and in none of its exceptions."""
    address = ipaddress.ip_address(ip)
    if address not in ipaddress.ip_network(block["cidr"]):
        return False
    return not any(address in ipaddress.ip_network(one) for one in block.get("except") or ())


def _port_fits(
    ports: Sequence[Mapping[str, Any]] | None, target: Peer, port: int, protocol: str
) -> bool:
    return not ports or any(
        one.get("protocol", "TCP") == protocol and _number_fits(one, target, port) for one in ports
    )


def _number_fits(term: Mapping[str, Any], target: Peer, port: int) -> bool:
    wanted = term.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return target.ports.get(wanted) == port
    return bool(wanted <= port <= term.get("endPort", wanted))


def peers_of(objects: Sequence[Object]) -> list[Peer]:
    """Return one pod of each workload."""
    return [
        Peer(
            name=owner,
            namespace="lessons",
            labels=template["metadata"]["labels"],
            ip=f"10.0.0.{number}",
            ports={
                port["name"]: port["containerPort"]
                for one in containers(template)
                for port in one.get("ports", ())
            },
        )
        for number, (owner, template) in enumerate(pods(objects), 1)
    ]
