"""What a pod may ask for: the `restricted` profile of Pod Security Standards, and our own rules.

Each rule takes a pod template and returns complaints; none means it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from support.kubernetes import Object, containers

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"} | {
    "projected",
    "secret",
}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
}
SELINUX = {"", "container_t", "container_init_t", "container_kvm_t"}
Rule = Callable[[Object], Iterator[str]]


def _security(one: Object) -> Object:
    found: Object = one.get("securityContext") or {}
    return found


def _each_level(template: Object) -> list[tuple[str, Object]]:
    """Return the pod's and each container's security context."""
    return [("pod", _security(template["spec"]))] + [
        (one["name"], _security(one)) for one in containers(template)
    ]


def _inherited(template: Object, key: str) -> list[tuple[str, Any]]:
    """Return the value of a key that counts for each container."""
    general = _security(template["spec"]).get(key)
    return [(one["name"], _security(one).get(key, general)) for one in containers(template)]


def not_root(template: Object) -> Iterator[str]:
    """No container, no init container and no override may run as root."""
    for name, sure in _inherited(template, "runAsNonRoot"):
        if sure is not True:
            yield f"{name}: runAsNonRoot is not set"
    for name, user in _inherited(template, "runAsUser"):
        if not isinstance(user, int) or user < 1:
            yield f"{name}: runAsUser is {user}"
    for name, group in _inherited(template, "runAsGroup"):
        if not isinstance(group, int) or group < 1:
            yield f"{name}: runAsGroup is {group}"
    for name, own in _each_level(template):  # the profile looks at each level, overridden or not
        if own.get("runAsUser") == 0 or own.get("runAsNonRoot") is False:
            yield f"{name}: asks for root"


def read_only_root(template: Object) -> Iterator[str]:
    """The image's file system cannot be changed."""
    for one in containers(template):
        if _security(one).get("readOnlyRootFilesystem") is not True:
            yield f"{one['name']}: root file system can be written"


def no_capabilities(template: Object) -> Iterator[str]:
    """All dropped, none added, none to be gained."""
    for one in containers(template):
        own = _security(one)
        capabilities = own.get("capabilities") or {}
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            yield f"{one['name']}: capabilities are {capabilities}"
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            yield f"{one['name']}: may gain privileges"


def seccomp(template: Object) -> Iterator[str]:
    """The runtime's filter of system calls is on."""
    for name, profile in _inherited(template, "seccompProfile"):
        if (profile or {}).get("type") != "RuntimeDefault":
            yield f"{name}: seccomp profile is {profile}"


def no_token(template: Object) -> Iterator[str]:
    """Nothing here talks to the cluster's API."""
    if template["spec"].get("automountServiceAccountToken") is not False:
        yield "a service account token is mounted"
    for volume in template["spec"].get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            if "serviceAccountToken" in source:
                yield f"volume {volume['name']} carries a token"


def no_host(template: Object) -> Iterator[str]:
    """Nothing of the node is shared."""
    spec = template["spec"]
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield f"{key} is set"
    for volume in spec.get("volumes", ()):
        if not VOLUMES & {*volume}:
            yield f"volume {volume['name']} is of another kind than {sorted(VOLUMES)}"
    for one in containers(template):
        for port in one.get("ports", ()):
            if port.get("hostPort"):
                yield f"{one['name']}: hostPort {port['hostPort']}"


def rest_of_restricted(template: Object) -> Iterator[str]:
    """What else the profile forbids: proc mounts, sysctls, SELinux, AppArmor, Windows, hosts."""
    for name, own in _each_level(template):
        if own.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
        if {one["name"] for one in own.get("sysctls", ())} - SYSCTLS:
            yield f"{name}: sysctls"
        linux = own.get("seLinuxOptions") or {}
        if linux.get("type", "") not in SELINUX or linux.get("user") or linux.get("role"):
            yield f"{name}: seLinuxOptions"
        if (own.get("appArmorProfile") or {}).get("type") == "Unconfined":
            yield f"{name}: appArmorProfile"
        if (own.get("windowsOptions") or {}).get("hostProcess"):
            yield f"{name}: hostProcess"
    for one in containers(template):
        if any("host" in call for call in _calls(one)):
            yield f"{one['name']}: a probe or hook names a host"


def _calls(container: Object) -> Iterator[Object]:
    hooks = [container.get(f"{name}Probe") for name in ("startup", "readiness", "liveness")]
    hooks += (container.get("lifecycle") or {}).values()
    for hook in hooks:
        for kind in ("httpGet", "tcpSocket"):
            if found := (hook or {}).get(kind):
                yield found


def no_service_links(template: Object) -> Iterator[str]:
    """A Service's variables must never be read as settings."""
    if template["spec"].get("enableServiceLinks") is not False:
        yield "Services become variables"


def versioned_image(template: Object) -> Iterator[str]:
    """Every image has a version, and a node that has it does not ask for it again."""
    for one in containers(template):
        name, _, tag = one["image"].rpartition("/")[2].partition(":")
        if not any(letter.isdigit() for letter in tag) or "latest" in tag:
            yield f"{one['name']}: image {name} has the tag {tag!r}"
        if one.get("imagePullPolicy") != "IfNotPresent":
            yield f"{one['name']}: imagePullPolicy is {one.get('imagePullPolicy')}"


def bounded(template: Object) -> Iterator[str]:
    """Requests and limits of cpu and memory, requests not above limits."""
    for one in containers(template):
        found = one.get("resources") or {}
        for name in ("cpu", "memory"):
            asked, most = (found.get(key, {}).get(name) for key in ("requests", "limits"))
            if not asked or not most or quantity(asked) > quantity(most):
                yield f"{one['name']}: {name} {asked} to {most}"


def quantity(text: str) -> float:
    """Return cores or bytes."""
    factors = {"m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    for unit, factor in factors.items():
        if str(text).endswith(unit):
            return float(str(text).removesuffix(unit)) * factor
    return float(text)


def high_ports(template: Object) -> Iterator[str]:
    """Ports a user without privileges may open, each with a name."""
    for one in containers(template):
        for port in one.get("ports", ()):
            if port["containerPort"] < 1024 or "name" not in port:
                yield f"{one['name']}: port {port}"


def small_scratch(template: Object) -> Iterator[str]:
    """What can be written is a claim, or scratch space that cannot fill a node's disk."""
    for volume in template["spec"].get("volumes", ()):
        if "emptyDir" in volume and not (volume["emptyDir"] or {}).get("sizeLimit"):
            yield f"volume {volume['name']} has no size limit"
    for one in containers(template):
        if "/tmp" not in {mount["mountPath"] for mount in one.get("volumeMounts", ())}:
            yield f"{one['name']}: no scratch space"


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        not_root,
        read_only_root,
        no_capabilities,
        seccomp,
        no_token,
        no_host,
        rest_of_restricted,
        no_service_links,
        versioned_image,
        bounded,
        high_ports,
        small_scratch,
    )
}
