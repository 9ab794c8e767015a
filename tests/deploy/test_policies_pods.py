"""Every pod of base and both overlays keeps every rule; each rule can be broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from support.kubernetes import (
    CLUSTERS,
    DEPLOY,
    Object,
    containers,
    load_objects,
    named,
    pod_template,
    pods,
    whole_cluster,
)
from support.pod_security import RULES, quantity

Change = Callable[[Object], object]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layer", CLUSTERS)
def test_pods_keep_the_rule(layer: str, rule: str) -> None:
    found = {owner: list(RULES[rule](template)) for owner, template in pods(whole_cluster(layer))}
    assert len(found) == 5 and not any(found.values()), found


def spec(**values: Any) -> Change:
    return lambda template: template["spec"].update(values)


def pod_security(**values: Any) -> Change:
    return lambda template: template["spec"]["securityContext"].update(values)


def first(**values: Any) -> Change:
    return lambda template: containers(template)[0].update(values)


def first_security(**values: Any) -> Change:
    return lambda template: containers(template)[0]["securityContext"].update(values)


def more_volumes(**values: Any) -> Change:
    return lambda template: template["spec"]["volumes"].append({"name": "x", **values})


BROKEN: list[tuple[str, Change]] = [
    ("not_root", first_security(runAsUser=0)),
    ("not_root", first_security(runAsNonRoot=False)),
    ("not_root", pod_security(runAsUser=0)),
    ("not_root", pod_security(runAsNonRoot=None)),
    ("not_root", pod_security(runAsGroup=0)),
    ("read_only_root", first_security(readOnlyRootFilesystem=False)),
    ("read_only_root", first(securityContext=None)),
    ("no_capabilities", first_security(capabilities={"drop": ["NET_RAW"]})),
    ("no_capabilities", first_security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})),
    ("no_capabilities", first_security(allowPrivilegeEscalation=True)),
    ("no_capabilities", first_security(privileged=True)),
    ("seccomp", pod_security(seccompProfile={"type": "Unconfined"})),
    ("seccomp", first_security(seccompProfile={"type": "Localhost"})),
    ("no_token", spec(automountServiceAccountToken=True)),
    ("no_token", more_volumes(projected={"sources": [{"serviceAccountToken": {}}]})),
    ("no_host", spec(hostNetwork=True)),
    ("no_host", spec(hostPID=True)),
    ("no_host", more_volumes(hostPath={"path": "/var/run"})),
    ("no_host", more_volumes(nfs={"server": "x", "path": "/"})),
    ("no_host", first(ports=[{"containerPort": 8000, "hostPort": 8000}])),
    ("rest_of_restricted", first_security(procMount="Unmasked")),
    ("rest_of_restricted", pod_security(sysctls=[{"name": "kernel.msgmax", "value": "1"}])),
    ("rest_of_restricted", pod_security(seLinuxOptions={"type": "spc_t"})),
    ("rest_of_restricted", pod_security(appArmorProfile={"type": "Unconfined"})),
    ("rest_of_restricted", pod_security(windowsOptions={"hostProcess": True})),
    ("rest_of_restricted", first(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 1}})),
    ("no_service_links", spec(enableServiceLinks=True)),
    ("versioned_image", first(image="registry.example.com:5000/gate")),
    ("versioned_image", first(image="gate:latest")),
    ("versioned_image", first(image="nginx:1.30-latest")),
    ("versioned_image", first(imagePullPolicy="Always")),
    ("bounded", first(resources={"requests": {"cpu": "1", "memory": "1Gi"}})),
    (
        "bounded",
        first(
            resources={
                "requests": {"cpu": "1", "memory": "2Gi"},
                "limits": {"cpu": "1", "memory": "512Mi"},
            }
        ),
    ),
    ("high_ports", first(ports=[{"name": "http", "containerPort": 80}])),
    ("small_scratch", more_volumes(emptyDir={})),
    ("small_scratch", first(volumeMounts=[])),
]


@pytest.mark.parametrize(("rule", "change"), BROKEN)
@pytest.mark.parametrize("owner", ["CronJob/lessons-gate", "StatefulSet/lessons-chroma"])
def test_rule_sees_what_breaks_it(owner: str, rule: str, change: Change) -> None:
    kind, _, name = owner.partition("/")
    template = deepcopy(pod_template(named(load_objects("base"), kind, name)))
    change(template)
    assert list(RULES[rule](template)), rule


def test_every_rule_is_broken_once() -> None:
    assert {rule for rule, _ in BROKEN} == {*RULES}


@pytest.mark.parametrize("layer", CLUSTERS)
def test_proxy_has_room_for_the_bodies_it_holds(layer: str) -> None:
    (proxy,) = containers(dict(pods(load_objects(layer)))["Deployment/lessons-proxy"])
    rules = (DEPLOY / "base" / "nginx.conf").read_text("utf-8")
    (adds,) = re.findall(r"limit_conn bodies (\d+);", rules)
    (ends,) = re.findall(r"worker_connections (\d+);", rules)  # two of each call
    worst = int(adds) * 8_000_000 + int(ends) // 2 * 500_000
    assert worst < quantity(proxy["resources"]["limits"]["memory"])


def test_quantities() -> None:
    assert quantity("250m") == 0.25 and quantity("2") == 2.0
    assert quantity("1Gi") == 1024 * quantity("1Mi") == 2**30
