"""The objects fit each other and outlive drains and missed runs; each rule can be broken."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from support.cluster_rules import RULES, secret_keys
from support.kubernetes import CLUSTERS, Object, containers, named, pod_template, whole_cluster

Change = Callable[[list[Object]], object]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layer", CLUSTERS)
def test_cluster_keeps_the_rule(layer: str, rule: str) -> None:
    assert list(RULES[rule](whole_cluster(layer))) == []


def spec(kind: str, name: str, **values: Any) -> Change:
    return lambda objects: named(objects, kind, f"lessons-{name}")["spec"].update(values)


def gate(**values: Any) -> Change:
    return spec("CronJob", "gate", **values)


def job(**values: Any) -> Change:
    return lambda objects: named(objects, "CronJob", "lessons-gate")["spec"]["jobTemplate"][
        "spec"
    ].update(values)


def pod(kind: str, name: str, **values: Any) -> Change:
    return lambda objects: pod_template(named(objects, kind, f"lessons-{name}"))["spec"].update(
        values
    )


def labels(kind: str, name: str, **values: Any) -> Change:
    return lambda objects: pod_template(named(objects, kind, f"lessons-{name}"))["metadata"].update(
        labels=values
    )


def part(kind: str, name: str, **values: Any) -> Change:
    return lambda objects: containers(pod_template(named(objects, kind, f"lessons-{name}")))[
        -1
    ].update(values)


def without(kind: str, name: str) -> Change:
    return lambda objects: objects.remove(named(objects, kind, name))


def setting(name: str, value: str) -> Change:
    return lambda objects: named(objects, "ConfigMap", "lessons-settings")["data"].update(
        {name: value}
    )


def probe(path: str, **values: Any) -> Object:
    return {"httpGet": {"path": path, "port": "http"}, **values}


def key_of(name: str, key: str) -> list[Object]:
    return [{"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]


BROKEN: list[tuple[str, str, Change]] = [
    ("names_exist", "base", without("ConfigMap", "lessons-settings")),
    ("names_exist", "base", without("PersistentVolumeClaim", "lessons-state")),
    ("names_exist", "base", part("CronJob", "gate", env=key_of("lessons-secret", "LESSONS_SALT"))),
    ("names_exist", "base", part("CronJob", "gate", env=key_of("lessons-secrets", "SALT"))),
    ("mounts_exist", "base", pod("CronJob", "gate", volumes=[])),
    ("selectors_match", "base", labels("Deployment", "proxy", x="y")),
    ("selectors_match", "base", spec("Service", "proxy", selector={})),
    (
        "selectors_match",
        "base",
        labels("Deployment", "desk", **{"app.kubernetes.io/name": "lessons-chroma"}),
    ),
    ("ports_match", "base", spec("Service", "proxy", ports=[{"port": 8080, "targetPort": 80}])),
    ("ports_match", "base", spec("StatefulSet", "chroma", serviceName="chroma")),
    ("ports_match", "base", spec("Service", "chroma", type="NodePort")),
    ("ports_match", "base", spec("Service", "proxy", externalIPs=["203.0.113.7"])),
    (
        "probes_ask_a_port",
        "base",
        part("Deployment", "proxy", livenessProbe={"httpGet": {"path": "/healthz", "port": 80}}),
    ),
    ("jobs_bounded", "base", gate(concurrencyPolicy="Allow")),
    ("jobs_bounded", "base", gate(timeZone="")),
    ("jobs_bounded", "base", gate(schedule="CRON_TZ=Europe/Rome 0 3 * * 0")),
    ("jobs_bounded", "base", gate(startingDeadlineSeconds=60)),
    ("jobs_bounded", "base", gate(failedJobsHistoryLimit=0)),
    ("jobs_bounded", "base", gate(suspend=False)),
    ("jobs_bounded", "base", job(backoffLimit=6)),
    ("jobs_bounded", "base", job(activeDeadlineSeconds=0)),
    ("jobs_bounded", "base", job(ttlSecondsAfterFinished=0)),
    ("jobs_bounded", "base", job(podFailurePolicy={})),
    ("jobs_bounded", "base", pod("CronJob", "gate", restartPolicy="Always")),
    ("jobs_bounded", "base", part("CronJob", "gate", tty=True)),
    ("jobs_bounded", "base", part("CronJob", "gate", args=["promote", "--review", "human"])),
    ("store_by_address", "base", spec("StatefulSet", "chroma", replicas=2)),
    (
        "store_by_address",
        "base",
        spec("StatefulSet", "chroma", persistentVolumeClaimRetentionPolicy={}),
    ),
    ("store_by_address", "base", pod("StatefulSet", "chroma", terminationGracePeriodSeconds=1)),
    ("store_by_address", "base", spec("StatefulSet", "chroma", volumeClaimTemplates=[])),
    (
        "store_by_address",
        "base",
        spec(
            "StatefulSet",
            "chroma",
            volumeClaimTemplates=[{"spec": {"accessModes": ["ReadWriteMany"]}}],
        ),
    ),
    ("store_by_address", "base", setting("LESSONS_STORE", "http://lessons-proxy:8080")),
    ("store_by_address", "base", setting("LESSONS_STORE", "/state")),
    ("shared_volumes", "base", pod("CronJob", "gate", affinity={})),
    ("shared_volumes", "base", labels("Deployment", "desk", x="y")),
    ("shared_volumes", "base", spec("Deployment", "desk", strategy={"type": "RollingUpdate"})),
    (
        "shared_volumes",
        "base",
        spec("PersistentVolumeClaim", "state", accessModes=["ReadWriteMany"]),
    ),
    ("probes_patient", "base", part("StatefulSet", "chroma", startupProbe={})),
    (
        "probes_patient",
        "base",
        part("StatefulSet", "chroma", livenessProbe=probe("/x", periodSeconds=5)),
    ),
    ("probes_patient", "base", part("Deployment", "proxy", readinessProbe=None)),
    (
        "probes_patient",
        "base",
        part("Deployment", "proxy", livenessProbe=probe("/api/v2/heartbeat")),
    ),
    ("drains_pass", "production", without("PodDisruptionBudget", "lessons-proxy")),
    ("drains_pass", "production", spec("PodDisruptionBudget", "proxy", minAvailable=2)),
    (
        "drains_pass",
        "production",
        spec("PodDisruptionBudget", "proxy", unhealthyPodEvictionPolicy="IfHealthyBudget"),
    ),
    ("rollouts_pass", "production", pod("Deployment", "proxy", affinity={})),
    (
        "rollouts_pass",
        "production",
        spec("Deployment", "proxy", strategy={"rollingUpdate": {"maxSurge": 1}}),
    ),
]


@pytest.mark.parametrize(("rule", "layer", "change"), BROKEN)
def test_rule_sees_what_breaks_it(rule: str, layer: str, change: Change) -> None:
    objects = deepcopy(whole_cluster(layer))
    change(objects)
    assert list(RULES[rule](objects)), rule


def test_every_rule_is_broken_once() -> None:
    assert {rule for rule, _, _ in BROKEN} == {*RULES}


def test_secret_template_names_its_keys() -> None:
    assert secret_keys() == {"LESSONS_SALT", "LESSONS_LLM_API_KEY", "LESSONS_EMBEDDING_KEY"} | {
        "LESSONS_EVAL_API_KEY"
    }
