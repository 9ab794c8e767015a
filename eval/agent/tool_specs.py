"""What a chat model is told of a tool file's functions: as Open WebUI 0.12.4 tells it.

Signature and docstring become one OpenAI function each; parameters such as `__user__`
are the server's to give and never told.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import Field, create_model

_PARAMETER = re.compile(r":param (\w+):\s*(.*)")
Schema = dict[str, Any]


def functions_of(tools: object) -> dict[str, Callable[..., Any]]:
    """Return the public callables of a Tools object by name; classes are none."""
    found = ((name, getattr(tools, name)) for name in dir(tools) if not name.startswith("_"))
    return {name: one for name, one in found if callable(one) and not inspect.isclass(one)}


def spec_of(name: str, function: Callable[..., Any]) -> Schema:
    """Return the function's entry in `tools`; raise what an unusable annotation raises."""
    document = function.__doc__ or ""
    said = re.split(r":(?:param|return)", document, maxsplit=1)[0] if document.strip() else name
    parameters = parameters_of(function)
    return {
        "type": "function",
        "function": {"name": name, "description": said, "parameters": parameters},
    }


def parameters_of(function: Callable[..., Any]) -> Schema:
    """Return the JSON schema of what the model may give."""
    hints, described = get_type_hints(function), described_parameters(function.__doc__ or "")
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name.startswith("__"):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        meaning = described.get(name)
        told = Field(default, description=meaning) if meaning else default
        fields[name] = (hints.get(name, Any), told)
    schema = create_model(getattr(function, "__name__", "tool"), **fields).model_json_schema()
    inlined: Schema = _inlined(schema, schema.get("$defs", {}), ())
    for gone in ("$defs", "title", "description"):
        inlined.pop(gone, None)
    cleaned = _untitled(inlined)
    _clean(cleaned)
    return cleaned


def described_parameters(document: str) -> dict[str, str]:
    """Return what `:param name:` lines say, with the lines that go on below them."""
    found: dict[str, str] = {}
    current = ""
    for line in map(str.strip, document.splitlines()):
        if match := _PARAMETER.match(line):
            current = "" if match[1].startswith("__") else match[1]
            if current:
                found[current] = match[2]
        elif line.startswith(":"):
            current = ""
        elif current and line:
            found[current] = "\n".join(filter(None, [found[current], line]))
    return found


def _inlined(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    """Put definitions in the place of references; a type inside itself ends as anything."""
    if isinstance(node, list):
        return [_inlined(one, definitions, inside) for one in node]
    if not isinstance(node, dict):
        return node
    rest = {
        key: _inlined(value, definitions, inside) for key, value in node.items() if key != "$ref"
    }
    name = str(node["$ref"]).rpartition("/")[2] if "$ref" in node else ""
    if not name:
        return rest
    if name in inside or name not in definitions:
        return rest
    return {**_inlined(definitions[name], definitions, (*inside, name)), **rest}


def _untitled(schema: Mapping[str, Any], parent: str = "") -> Schema:
    """Leave pydantic's titles out; a property called `title` stays."""
    kept: Schema = {}
    for key, value in schema.items():
        if key == "title" and not (isinstance(value, dict) and parent == "properties"):
            continue
        kept[key] = _untitled(value, key) if isinstance(value, dict) else value
    return kept


def _clean(schema: Any) -> None:
    """Make optional types plain and name a type everywhere, as some providers need it."""
    if not isinstance(schema, dict):
        return
    if "anyOf" in schema:
        real = [one for one in schema["anyOf"] if one.get("type") != "null"]
        if len(real) == 1:
            schema.update(real[0])
            del schema["anyOf"]
        else:
            schema["anyOf"] = real
    if schema.get("default", ...) is None:
        del schema["default"]
    if not {"type", "anyOf", "properties"} & schema.keys():
        schema["type"] = "string"
    for inner in (*schema.get("properties", {}).values(), schema.get("items")):
        _clean(inner)
