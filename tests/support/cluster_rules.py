"""Rules over a cluster's objects: what is named exists, jobs are bounded, volumes can be shared.

Each rule takes the rendered objects and returns complaints; none means it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import yaml

from support.kubernetes import (
    DEPLOY,
    Object,
    containers,
    named,
    of_kind,
    pod_template,
    pods,
    selects,
    title,
)

Rule = Callable[[Sequence[Object]], Iterator[str]]
WEEK = 7 * 24 * 3600
INTERACTIVE = {"human", "--interactive", "-i"}


def secret_keys() -> set[str]:
    """Return the keys the template of the Secret offers, commented out there."""
    text = (DEPLOY / "base" / "secret.example.yaml").read_text()
    return {*re.findall(r"^  # ([A-Z_]+): <", text, re.MULTILINE)}


def names_exist(objects: Sequence[Object]) -> Iterator[str]:
    """Every ConfigMap, Secret, claim and key that a pod names is there."""
    known = {title(one): {*one.get("data", {})} for one in of_kind(objects, "ConfigMap")}
    known[f"Secret/{_secret_name()}"] = secret_keys()
    claims = {one["metadata"]["name"] for one in of_kind(objects, "PersistentVolumeClaim")}
    for owner, template in pods(objects):
        for kind, name, key in _references(template):
            found = known.get(f"{kind}/{name}")
            if found is None or (key and key not in found):
                yield f"{owner}: {kind} {name} {key} is not there"
        for volume in template["spec"].get("volumes", ()):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and claim not in claims:
                yield f"{owner}: claim {claim} is not there"


def _secret_name() -> str:
    text = (DEPLOY / "base" / "secret.example.yaml").read_text()
    return str(yaml.safe_load(text)["metadata"]["name"])


def _references(template: Object) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and key (empty: the whole) of what a pod is given."""
    maps = {
        one["name"]: one["configMap"]["name"]
        for one in template["spec"].get("volumes", ())
        if "configMap" in one
    }
    yield from (("ConfigMap", name, "") for name in maps.values())
    for one in containers(template):
        for source in one.get("envFrom", ()):
            yield from _kinds(source, "Ref", "")
        for variable in one.get("env", ()):
            yield from _kinds(variable.get("valueFrom", {}), "KeyRef", "key")
        for mount in one.get("volumeMounts", ()):
            if "subPath" in mount:
                yield "ConfigMap", maps.get(mount["name"], ""), mount["subPath"]


def _kinds(source: Object, ending: str, key: str) -> Iterator[tuple[str, str, str]]:
    for kind in ("ConfigMap", "Secret"):
        if found := source.get(f"{kind[0].lower()}{kind[1:]}{ending}"):
            yield kind, found["name"], found.get(key, "")


def mounts_exist(objects: Sequence[Object]) -> Iterator[str]:
    """Every mount names a volume, every volume is mounted."""
    for one in of_kind(objects, "Deployment", "StatefulSet", "CronJob"):
        template = pod_template(one)
        made = [volume["name"] for volume in template["spec"].get("volumes", ())]
        made += [claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())]
        used = {
            mount["name"] for part in containers(template) for mount in part.get("volumeMounts", ())
        }
        if used != {*made} or len(made) != len({*made}):
            yield f"{title(one)}: volumes {sorted(made)}, mounted {sorted(used)}"


def selectors_match(objects: Sequence[Object]) -> Iterator[str]:
    """A workload selects its own pods alone; a Service or budget those of one workload."""
    labels = {owner: template["metadata"]["labels"] for owner, template in pods(objects)}
    for one in of_kind(objects, "Deployment", "StatefulSet"):
        taken = [owner for owner, own in labels.items() if selects(one["spec"]["selector"], own)]
        if taken != [title(one)]:
            yield f"{title(one)} selects {taken}"
    for one in of_kind(objects, "Service", "PodDisruptionBudget"):
        selector = one["spec"]["selector"]
        term = selector if one["kind"] != "Service" else {"matchLabels": selector}
        taken = [owner for owner, own in labels.items() if selects(term, own)]
        if len(taken) != 1 or not selector:
            yield f"{title(one)} selects {taken}"


def ports_match(objects: Sequence[Object]) -> Iterator[str]:
    """A Service is the cluster's own, its target a port of the container; a StatefulSet has one."""
    services = of_kind(objects, "Service")
    for one in services:
        for _, template in pods(objects):
            if selects({"matchLabels": one["spec"]["selector"]}, template["metadata"]["labels"]):
                offered = _offered(template)
                for port in one["spec"]["ports"]:
                    if offered.get(port["targetPort"]) != port["port"]:
                        yield f"{title(one)}: {port} of {offered}"
        if one["spec"].get("type") != "ClusterIP" or one["spec"].get("externalIPs"):
            yield f"{title(one)}: reached from outside the cluster"
    for one in of_kind(objects, "StatefulSet"):
        if one["spec"]["serviceName"] not in {found["metadata"]["name"] for found in services}:
            yield f"{title(one)}: Service {one['spec']['serviceName']} is not there"


def probes_ask_a_port(objects: Sequence[Object]) -> Iterator[str]:
    """A probe asks a port its own container offers."""
    for owner, template in pods(objects):
        for part in containers(template):
            for name in ("startupProbe", "readinessProbe", "livenessProbe"):
                port = (part.get(name) or {}).get("httpGet", {}).get("port")
                if port is not None and port not in _offered(template):
                    yield f"{owner}: {name} asks port {port}"


def _offered(template: Object) -> dict[str | int, int]:
    ports = [port for one in containers(template) for port in one.get("ports", ())]
    return {port["name"]: port["containerPort"] for port in ports} | {
        port["containerPort"]: port["containerPort"] for port in ports
    }


def jobs_bounded(objects: Sequence[Object]) -> Iterator[str]:
    """What T-42 asks of a scheduled job, and that it ends before the next one begins."""
    for one in of_kind(objects, "CronJob"):
        spec, job = one["spec"], one["spec"]["jobTemplate"]["spec"]
        template = job["template"]
        facts = {
            "concurrencyPolicy": spec.get("concurrencyPolicy") == "Forbid",
            "timeZone": "/" in spec.get("timeZone", ""),
            "schedule": re.fullmatch(r"[\d*/,-]+( [\d*/,-]+){4}", spec["schedule"]) is not None,
            "startingDeadlineSeconds": 300 <= spec.get("startingDeadlineSeconds", 0) < WEEK,
            "successfulJobsHistoryLimit": 1 <= spec.get("successfulJobsHistoryLimit", 0) <= 10,
            "failedJobsHistoryLimit": 1 <= spec.get("failedJobsHistoryLimit", 0) <= 10,
            "suspend": spec.get(
                "suspend", True
            ),  # an apply with false would undo an operator's own
            "backoffLimit": 0 <= job.get("backoffLimit", 6) <= 4,
            "activeDeadlineSeconds": 600 <= job.get("activeDeadlineSeconds", 0) < 24 * 3600,
            "podFailurePolicy": not job.get("backoffLimit")  # a drained node is no failure
            or "DisruptionTarget" in str(job.get("podFailurePolicy")),
            "ttlSecondsAfterFinished": job.get("ttlSecondsAfterFinished", 0) > WEEK,
            "restartPolicy": template["spec"].get("restartPolicy") == "Never",
            "interactive": not any(  # T-33
                part.get("stdin") or part.get("tty") or INTERACTIVE & {*part.get("args", ())}
                for part in containers(template)
            ),
        }
        yield from (f"{title(one)}: {name}" for name, holds in facts.items() if not holds)


def store_by_address(objects: Sequence[Object]) -> Iterator[str]:
    """Only Chroma mounts Chroma's folder, one at a time, on storage that outlives it."""
    for one in of_kind(objects, "StatefulSet"):
        spec = one["spec"]
        if spec.get("replicas", 1) != 1:  # T-40
            yield f"{title(one)}: {spec['replicas']} servers on one folder"
        if {*spec.get("persistentVolumeClaimRetentionPolicy", {}).values()} != {"Retain"}:
            yield f"{title(one)}: its claims go with it"
        claims = spec.get("volumeClaimTemplates", ())
        if [claim["spec"]["accessModes"] for claim in claims] != [["ReadWriteOnce"]]:
            yield f"{title(one)}: no claim of its own, or one that several nodes mount"
        if spec["template"]["spec"].get("terminationGracePeriodSeconds", 30) < 30:
            yield f"{title(one)}: no time to end"
    settings = named(objects, "ConfigMap", "lessons-settings")["data"]
    if not re.fullmatch(r"https?://lessons-chroma:8000", settings["LESSONS_STORE"]):
        yield f"the gate's store is {settings['LESSONS_STORE']}"


def shared_volumes(objects: Sequence[Object]) -> Iterator[str]:
    """Who shares a ReadWriteOnce claim asks for one node, on a label that all of them carry."""
    users: dict[str, list[Object]] = {}
    for _, template in pods(objects):
        for volume in template["spec"].get("volumes", ()):
            if claim := volume.get("persistentVolumeClaim", {}).get("claimName"):
                users.setdefault(claim, []).append(template)
    for claim in of_kind(objects, "PersistentVolumeClaim"):
        sharing = users.get(claim["metadata"]["name"], [])
        if claim["spec"]["accessModes"] != ["ReadWriteOnce"]:
            yield f"{title(claim)}: SQLite on storage that several nodes mount"
        for template in sharing:
            if not any(
                all(selects(term["labelSelector"], one["metadata"]["labels"]) for one in sharing)
                for term in _same_node(template)
            ):
                yield f"{title(claim)}: {template['metadata']['labels']} may land elsewhere"
    for one in of_kind(objects, "Deployment"):
        claims = [
            v for v in one["spec"]["template"]["spec"]["volumes"] if "persistentVolumeClaim" in v
        ]
        if claims and one["spec"].get("strategy", {}).get("type") != "Recreate":
            yield f"{title(one)}: two of it during an update"


def _same_node(template: Object) -> list[Object]:
    terms = (
        template["spec"]
        .get("affinity", {})
        .get("podAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", ())
    )
    return [term for term in terms if term["topologyKey"] == "kubernetes.io/hostname"]


def probes_patient(objects: Sequence[Object]) -> Iterator[str]:
    """No probe restarts what is only slow, or what waits for somebody else."""
    for owner, template in pods(objects):
        for part in containers(template):
            ready, alive = part.get("readinessProbe"), part.get("livenessProbe")
            if part.get("ports") and not (ready and alive):
                yield f"{owner}: a server without probes"
            if alive and _seconds(alive) < 30:
                yield f"{owner}: killed after {_seconds(alive)} s"
    chroma = dict(pods(objects))["StatefulSet/lessons-chroma"]["spec"]["containers"][0]
    if _seconds(chroma.get("startupProbe", {})) < 300:
        yield "chroma: killed while it starts"
    proxy = dict(pods(objects))["Deployment/lessons-proxy"]["spec"]["containers"][0]
    if proxy["livenessProbe"]["httpGet"]["path"] != "/healthz":
        yield "proxy: restarted because Chroma is away"


def _seconds(probe: Object) -> int:
    return int(probe.get("periodSeconds", 10)) * int(
        probe.get("failureThreshold", 3) if probe else 0
    )


def drains_pass(objects: Sequence[Object]) -> Iterator[str]:
    """A node can be drained, whatever is broken meanwhile, and not all of a workload at once."""
    budgets = of_kind(objects, "PodDisruptionBudget")
    for one in of_kind(objects, "Deployment"):
        labels = pod_template(one)["metadata"]["labels"]
        kept = any(selects(budget["spec"]["selector"], labels) for budget in budgets)
        if one["spec"]["replicas"] > 1 and not kept:
            yield f"{title(one)}: a drain may take all of it"
    for budget in budgets:
        held = [
            one
            for one in of_kind(objects, "Deployment")
            if selects(budget["spec"]["selector"], pod_template(one)["metadata"]["labels"])
        ]
        if any(budget["spec"]["minAvailable"] >= one["spec"]["replicas"] for one in held):
            yield f"{title(budget)} never lets a pod go"
        if budget["spec"].get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield f"{title(budget)} holds pods that are not ready"


def rollouts_pass(objects: Sequence[Object]) -> Iterator[str]:
    """Replicas are on different nodes; an update needs no more nodes than there are replicas."""
    for one in of_kind(objects, "Deployment"):
        rolling = one["spec"].get("strategy", {}).get("rollingUpdate", {})
        apart = pod_template(one)["spec"].get("affinity", {}).get("podAntiAffinity", {})
        if apart.get("requiredDuringSchedulingIgnoredDuringExecution") and rolling["maxSurge"]:
            yield f"{title(one)}: one more than there may be nodes"
        if one["spec"]["replicas"] > 1 and not apart:
            yield f"{title(one)}: all of it on one node"


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        names_exist,
        mounts_exist,
        selectors_match,
        ports_match,
        probes_ask_a_port,
        jobs_bounded,
        store_by_address,
        shared_volumes,
        probes_patient,
        drains_pass,
        rollouts_pass,
    )
}
