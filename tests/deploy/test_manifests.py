"""The Kubernetes objects: rendered as committed, valid in each supported release, one per file."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import utils as schemas

from support.kubernetes import (
    CLUSTERS,
    DEPLOY,
    LAYERS,
    WORKLOADS,
    Object,
    containers,
    kustomized,
    load_objects,
    named,
    of_kind,
    pod_template,
    pods,
    rendered_now,
    title,
    whole_cluster,
)

OLDEST = "1.29"
"""The first whose schema has every field that is used (`podFailurePolicy` by exit codes alone)."""
RELEASES = [
    version
    for version in schemas.all_versions()
    if tuple(map(int, version.split("."))) >= tuple(map(int, OLDEST.split(".")))
]


def faults(objects: list[Object], release: str) -> list[str]:
    """Return what the release's own schema says of each object; unknown fields are faults."""
    found = []
    for one in objects:
        try:
            schemas.validate(one, release, strict=True)
        except schemas.ValidationError as error:
            found.append(f"{title(one)}: {error.message}")
    return found


def distinct() -> list[Object]:
    """Return the objects of all layers, equal ones once."""
    every = [one for layer in LAYERS for one in load_objects(layer)]
    return list({json.dumps(one, sort_keys=True): one for one in every}.values())


def text_files() -> list[Path]:
    return sorted(
        path for folder in ("base", "overlays") for path in (DEPLOY / folder).rglob("*.yaml")
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_committed_rendering_is_the_current_one(layer: str) -> None:
    now = list(yaml.safe_load_all(rendered_now(layer)))
    assert load_objects(layer) == now, "the rendered objects are old: run `make render`"


@pytest.mark.parametrize("release", sorted({*RELEASES}))
def test_objects_are_valid_in_each_release(release: str) -> None:
    assert faults(distinct(), release) == []


def test_schemas_see_what_is_wrong() -> None:
    gate = named(load_objects("base"), "CronJob", "lessons-gate")
    for change in (
        {"concurrencyPolice": "Forbid"},
        {"startingDeadlineSeconds": "soon"},
        {"jobTemplate": {"spec": {}}},
    ):
        broken = deepcopy(gate)
        broken["spec"] |= change
        assert faults([broken], RELEASES[-1]), change


def test_releases_reach_from_the_oldest_to_the_newest() -> None:
    assert len({*RELEASES}) >= 9 and RELEASES[-1] == schemas.latest_version()


@pytest.mark.parametrize("path", text_files(), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_one_object_per_file_named_by_its_kind(path: Path) -> None:
    content = list(yaml.safe_load_all(path.read_text()))
    assert len(content) == 1
    assert path.name.partition(".")[0].partition("-")[0] == content[0]["kind"].lower()


def test_images_in_the_files_are_the_rendered_ones() -> None:
    """Who reads a file alone finds a version, the one that kustomize puts in."""
    for layer in LAYERS:
        there = {image for one in load_objects(layer) for image in images_of(one)}
        for path in (DEPLOY / LAYERS[layer]).glob("*.yaml"):
            assert images_of(yaml.safe_load(path.read_text())) <= there, path


def images_of(one: Object) -> set[str]:
    """Return the images that a workload's containers name."""
    if one["kind"] not in WORKLOADS:
        return set()
    return {part["image"] for part in containers(pod_template(one)) if "image" in part}


@pytest.mark.parametrize("layer", CLUSTERS)
def test_desk_sleeps_and_shares_the_gates_state(layer: str) -> None:
    assert named(load_objects(layer), "Deployment", "lessons-desk")["spec"]["replicas"] == 0
    for owner in ("Deployment/lessons-desk", "CronJob/lessons-gate"):
        template = dict(pods(load_objects(layer)))[owner]
        claims = {
            one["name"]: one["persistentVolumeClaim"]["claimName"]
            for one in template["spec"]["volumes"]
            if "persistentVolumeClaim" in one
        }
        for part in containers(template):
            mounts = {mount["mountPath"]: mount["name"] for mount in part["volumeMounts"]}
            assert claims.get(mounts["/state"]) == "lessons-state", owner


@pytest.mark.parametrize("layer", CLUSTERS)
def test_gate_runs_on_sundays_at_three(layer: str) -> None:
    spec = named(load_objects(layer), "CronJob", "lessons-gate")["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("0 3 * * 0", "Etc/UTC")


def test_namespace_comes_first_and_everything_is_in_it() -> None:
    for layer in CLUSTERS:
        objects = load_objects(layer)
        assert objects[0]["kind"] == "Namespace"
        inside = objects[1:] + load_objects("evaluation")
        assert {one["metadata"].get("namespace") for one in inside} == {"lessons"}


def test_namespace_enforces_the_restricted_profile() -> None:
    for layer in CLUSTERS:
        labels = load_objects(layer)[0]["metadata"]["labels"]
        levels = {labels[f"pod-security.kubernetes.io/{way}"] for way in ("enforce", "warn")}
        assert levels == {"restricted"}
        assert labels["pod-security.kubernetes.io/enforce-version"].startswith("v1.")


@pytest.mark.parametrize("layer", CLUSTERS)
def test_all_objects_and_pods_say_what_they_are_part_of(layer: str) -> None:
    objects = whole_cluster(layer)
    metas = [one["metadata"] for one in objects]
    for owner, template in pods(objects):
        metas.append(template["metadata"])
        assert template["metadata"]["labels"]["app.kubernetes.io/name"] == owner.partition("/")[2]
    assert {meta["labels"]["app.kubernetes.io/part-of"] for meta in metas} == {"lessons-loop"}


def test_image_has_the_packages_version() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    for layer in CLUSTERS:
        images = {
            one["image"]
            for _, template in pods(whole_cluster(layer))
            for one in containers(template)
            if "lessons-loop" in one["image"]
        }
        assert images == {f"lessons-loop-{name}:{project['version']}" for name in ("gate", "eval")}


def test_chroma_is_the_version_the_package_is_tested_with() -> None:
    import chromadb

    pod = dict(pods(load_objects("base")))["StatefulSet/lessons-chroma"]
    assert containers(pod)[0]["image"] == f"chromadb/chroma:{chromadb.__version__}"


def test_no_secret_is_rendered_and_none_overwritten() -> None:
    for layer in CLUSTERS:
        assert not of_kind(load_objects(layer), "Secret")


def secret_template() -> Any:
    return yaml.safe_load((DEPLOY / "base" / "secret.example.yaml").read_text())


def test_secret_template_holds_no_value() -> None:
    template = secret_template()
    assert faults([template], RELEASES[-1]) == []
    assert not template.get("stringData") and not template.get("data")
    assert (template["metadata"]["name"], template["metadata"]["namespace"]) == (
        "lessons-secrets",
        "lessons",
    )


def test_overlays_differ_as_they_say() -> None:
    small, production = (load_objects(layer) for layer in ("small", "production"))
    sizes = [
        named(objects, "StatefulSet", "lessons-chroma")["spec"]["template"]["spec"]["containers"][
            0
        ]["resources"]["requests"]["memory"]
        for objects in (small, load_objects("base"), production)
    ]
    assert sizes == ["192Mi", "384Mi", "1Gi"]
    gates = [
        containers(dict(pods(objects))["CronJob/lessons-gate"])[-1]["args"]
        for objects in (small, production)
    ]
    assert gates[1] == [*gates[0], "--review", "llm"]
    assert gates[0] == ["promote", "--unattended", "--demote-stale"]
    assert named(production, "Deployment", "lessons-proxy")["spec"]["replicas"] == 2


@pytest.mark.parametrize("layer", ["small", "production", "evaluation"])
def test_operators_copy_takes_a_registry(layer: str, tmp_path: Path) -> None:
    """The page's way: a copy of an overlay beside it, the comment marks of `images` taken away."""
    shutil.copytree(DEPLOY / "base", tmp_path / "base")
    mine = tmp_path / "overlays" / "mine"
    shutil.copytree(DEPLOY / LAYERS[layer], mine)
    file = mine / "kustomization.yaml"
    text = re.sub(
        r"^(\s*)# (images:|  - name:|    newName:|newName:)", r"\1\2", file.read_text(), flags=re.M
    )
    file.write_text(text)
    images = {
        one["image"]
        for _, template in pods(list(yaml.safe_load_all(kustomized(mine))))
        for one in containers(template)
        if "lessons-loop" in one["image"]
    }
    assert len(images) == 1
    assert re.fullmatch(r"registry\.example\.com/lessons-loop-(gate|eval):\d.*", *images)


def test_comments_warn_of_what_storage_does() -> None:
    """T-42: who edits the claims reads why they are as they are."""
    texts = {path.name: path.read_text() for path in (DEPLOY / "base").glob("*.yaml")}
    assert "Multi-Attach" in texts["persistentvolumeclaim-state.yaml"]
    for name in ("persistentvolumeclaim-state.yaml", "statefulset-chroma.yaml"):
        assert "SQLite" in texts[name] and "NFS" in texts[name]
