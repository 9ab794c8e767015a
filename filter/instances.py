"""Find in a transcript the values that name one case: ids, jobs, accounts, tenants.

A lesson that names one of them is about that case, not about the class of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping

from lessons_loop.filter.reading import Reading
from lessons_loop.filter.terms import data_files_in

_INSTANCE_KEY = re.compile(
    r"^(?:id|job|charge|customer|user|username|account|pod|host|hostname|node|to|recipient|email"
    r"|ticket|issue|order|invoice|run|build|serial|sn|device|machine|chat|channel|cursor|session"
    r"|assignee|owner|author|reporter|created_by|login|contact|realm|tenant"
    r"|(?i:.*token|.*uid|.*guid)|(?!(?:table|column|field|metric|model|dataset|schema|class|type|unit)_?id$).*_id"
    r"|(?!(?:table|column|field|metric|model|dataset|schema|class|type|unit)Id$).*[a-z]Id)$"
)
_CLASS_KEY = re.compile(
    r"^(?:model|engine|table|dataset|index|metric|measurement|field|column|type|kind|class|object"
    r"|resource|currency|unit|schema|topic|service|image|version)$"
)
"""Keys whose values name a sort of thing, also where an `id` repeats them."""
_PATH_INSTANCE = re.compile(
    r"/(?:realms|tenants|users|customers|accounts|orgs|organi[sz]ations|teams|workspaces|projects"
    r"|repos|issues|tickets|orders|invoices|channels|chats|devices|hosts|jobs|runs|builds|buckets"
    r"|sites|clusters)/([\w.@-]{3,80})/"
)
_FLAG_INSTANCE = re.compile(
    r"(?<![\w-])--(?:group|project|account|tenant|realm|customer|org|host|hostname|job|ticket|bucket"
    r"|instance|device|serial"
    r"|(?!table|column|field|metric|index|dataset|topic|model)[a-z]{2,20}-name)"
    r"[= ][\"']?([\w.@-]{3,80})"
)
_POD_INSTANCE = re.compile(r"\b(?:pods?|po|nodes?|jobs?)[ /]([a-z0-9][a-z0-9.]*-[a-z0-9.-]{2,80})")


_COMPARED_ID = re.compile(
    r"\b(?!(?:status|state|type|kind|category|role|level|group|tag|currency|country|class|unit"
    r"|priority|reason|table|column|field|metric|model|dataset|schema)_?id\b)\w*id\s{0,2}"
    r"(?:=|==|in \()\s{0,2}['\"]?(\d[\w.-]{2,80})",
    re.IGNORECASE,
)
"""`itemid = 48913` in a query: one row of many."""
_NUMBERED = re.compile(
    r"\b(?:container|vm|ct|lxc|ticket|invoice|customer|issue|project|job|build|account|case"
    r"|employee|contract|shipment|device|printer|rechnung|kunde|bestellung|auftrag|projekt|vorgang"
    r"|vertrag|gerät|drucker|facture|commande|factura|pedido)"
    r"\s{0,2}(?:id|no\.?|nr\.?|number|nummer|n°)?\s{0,2}[:#]?\s{0,2}(\d{3,12})\b(?!\s?[.,:]?\d)",
    re.IGNORECASE,
)
"""`container 114` in the user's words."""
_HOST_LABEL = re.compile(
    r"(?<![\w./-])(?:[a-z][a-z0-9]{0,20}-)*(?:sw|srv|server|web|app|proxy|host|router|rtr|fw|gw|vm"
    r"|nas|esxi?|pve|worker|master|lb|switch|backup|mx|ns|dns|mail|printer|drucker)-?\d{1,3}(?![\w.-])"
)


def names_instance(part: str, instances: Collection[str]) -> bool:
    """Say whether a text names one of these single cases, given case folded."""
    folded = part.casefold()
    return any(
        re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", folded)
        for value in instances
        if value in folded and not value.isdigit()
    )


def instance_values(reading: Reading) -> frozenset[str]:
    """Return the values, case folded, that name one case: ids, jobs, cursors, accounts."""
    found: set[str] = set()
    classes: set[str] = set()
    for place in reading.where("user"):
        found |= set(_NUMBERED.findall(reading.texts[place]))
    for place in reading.where("user", "call"):
        labels = _HOST_LABEL.findall(reading.texts[place])
        found |= {label for label in labels if "-" in label}
    for place in reading.where("call", "result"):
        if reading.turns[place].role == "call":
            found |= set(_addressed_instances(reading.texts[place]))
        try:
            parsed = json.loads(reading.turns[place].text)
        except (ValueError, RecursionError):
            continue
        for key, value in _leaves(parsed, "", 0):
            if isinstance(value, str) and _CLASS_KEY.match(key):
                classes.add(value.casefold())
            elif _INSTANCE_KEY.match(key):
                found |= set(_instance(key, value))
    return frozenset(found - classes)


def _leaves(value: object, key: str, depth: int) -> Iterator[tuple[str, object]]:
    if depth > 6:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value[:200]:
            yield from _leaves(inner, key, depth + 1)
    else:
        yield key, value


def _instance(key: str, value: object) -> Iterator[str]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, str) and _is_label(value, key):
        yield value.casefold()


def _addressed_instances(call: str) -> Iterator[str]:
    """Yield what a call's paths, options and files name: `/realms/NAME/users`, `NAME.csv`."""
    forms = (_PATH_INSTANCE, _FLAG_INSTANCE, _POD_INSTANCE, _COMPARED_ID)
    named = [value for form in forms for value in form.findall(call)]
    for value in (*named, *data_files_in(call)):
        if _is_label(value, ""):
            yield value.casefold()


def _is_label(value: str, key: str) -> bool:
    """Say whether a value names one case; under an `id` also schemas list their columns."""
    if key.casefold().endswith("id") and not any(map(str.isdigit, value)):
        return False
    plain = value.isalpha() and (value.islower() or value.istitle())
    return 3 <= len(value) <= 80 and not plain and not re.search(r"[\s/]", value)
