"""The tools of an Open WebUI tool file, called without Open WebUI.

The file is the administrator's own code and runs in this process with all its rights.

Covered: valves, async and sync functions, the parameters Open WebUI fills in itself, errors
as Open WebUI hands them to the model, calls that hang, `print`. Not covered: `requirements`
(nothing is installed), events, user valves but their defaults, files and images in results.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import json
import sys
import types
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ValidationError

from lessons_loop.eval.agent.loop_thread import TimedLoop
from lessons_loop.eval.agent.tool_results import is_tool_error, result_text
from lessons_loop.eval.agent.tool_specs import functions_of, spec_of
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import explain_invalid
from lessons_loop.filter.redact import mask
from lessons_loop.filter.store import first_line
from lessons_loop.filter.text import scrub

TOOL_SECONDS = 60.0
"""Limit of one call, from its own beginning."""
LOAD_SECONDS = 300.0
MOVED = ("utils", "apps", "main", "config")
"""Modules that Open WebUI lets a pasted file import by their old names."""


class BadTools(LessonsError):
    """A tool file cannot be used."""


class ToolBox:
    """The functions of one tool file; calls may come from several threads."""

    def __init__(self, tools: object, loop: TimedLoop) -> None:
        """Read the functions' specs; raise BadTools."""
        self._functions, self._loop = functions_of(tools), loop
        self._given = _given_by_server(tools)
        try:
            self.specs = [spec_of(name, one) for name, one in self._functions.items()]
        except Exception as error:  # annotations are the file's own code
            raise BadTools(f"a tool's signature cannot be told a model: {_reason(error)}") from None
        self._allowed = {
            one["function"]["name"]: frozenset(one["function"]["parameters"].get("properties", {}))
            for one in self.specs
        }

    def call(self, name: str, arguments: str) -> tuple[str, bool]:
        """Return a call's result as the model gets it, and whether it failed; never raise.

        `arguments` is JSON as the model wrote it.
        """
        result = self._called(name, arguments)
        text = scrub(result_text(name, result))
        return text, is_tool_error(text)

    def _called(self, name: str, arguments: str) -> Any:
        given, readable = parsed_arguments(arguments)
        if not readable:
            return f"Error: the arguments for `{name}` are no readable JSON. Please try again."
        if not isinstance(given, dict):
            return f"Error: the arguments for `{name}` must be one JSON object. Please try again."
        function = self._functions.get(name)
        if function is None:
            return f'Error: there is no tool "{name}".'
        wanted = {key: value for key, value in given.items() if key in self._allowed[name]}
        return self._loop.run(lambda: _asked(function, wanted, self._given))


async def _asked(
    function: Callable[..., Any], wanted: Mapping[str, Any], given: Mapping[str, Any]
) -> Any:
    """Call the function; whatever it raises becomes an error the model reads."""
    try:
        known = inspect.signature(function).parameters
        extra = {key: value for key, value in given.items() if key in known}
        found = function(**extra, **coerced(function, wanted))
        return await found if inspect.isawaitable(found) else found
    except Exception as error:
        return {"error": str(error)}
    except (SystemExit, KeyboardInterrupt) as error:  # would end the loop for all tools
        return {"error": f"{type(error).__name__} {error}".strip()}


def load_tools(
    file: Path, valves: Mapping[str, Any] | None = None, seconds: float = TOOL_SECONDS
) -> ToolBox:
    """Run a tool file and return its tools; raise BadTools."""
    try:
        source = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise BadTools(f"tool file {file} cannot be read: {why}") from None
    loop = TimedLoop(seconds)

    async def made() -> object:
        # in the loop's own thread: what it opens here is used there
        return _with_valves(_tools_of(file, source), valves or {}, file)

    found = loop.run(made, LOAD_SECONDS)
    if isinstance(found, dict):  # only the loop's own time limit answers so
        raise BadTools(f"tool file {file} took more than {LOAD_SECONDS:g} s to load")
    return ToolBox(found, loop)


def _tools_of(file: Path, source: str) -> object:
    for name in MOVED:
        source = source.replace(f"from {name}", f"from open_webui.{name}")
    module = types.ModuleType(f"lessons_tools_{uuid.uuid4().hex}")
    sys.modules[module.__name__] = module  # pydantic looks names up there
    module.__dict__["__file__"] = str(file)
    module.__dict__["print"] = functools.partial(builtins.print, file=sys.stderr)
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)  # as Open WebUI does
        if not hasattr(module, "Tools"):
            raise BadTools(f"tool file {file} has no class Tools")
        return module.Tools()
    except BadTools:
        raise
    except ModuleNotFoundError as error:
        raise BadTools(
            f"tool file {file} needs {error.name}: install it where lessons runs"
        ) from None
    except (Exception, SystemExit) as error:
        raise BadTools(f"tool file {file} cannot be loaded: {_reason(error)}") from None


def _with_valves(tools: Any, valves: Mapping[str, Any], file: Path) -> object:
    if not (hasattr(tools, "valves") and hasattr(tools, "Valves")):
        if valves:
            raise BadTools(f"tool file {file} has no valves, but {', '.join(valves)} is given")
        return tools
    if strange := sorted(set(valves) - set(getattr(tools.Valves, "model_fields", valves))):
        raise BadTools(f"tool file {file} has no valve {strange[0]}")
    try:
        tools.valves = tools.Valves(**valves)
    except ValidationError as error:
        raise BadTools(f"valves of tool file {file}: {explain_invalid(error)}") from None
    except Exception as error:
        raise BadTools(f"valves of tool file {file}: {_reason(error)}") from None
    return tools


def _given_by_server(tools: Any) -> dict[str, Any]:
    """Return what Open WebUI fills in: a user of no account, no chat, nobody to show things."""

    async def nobody(*_: Any, **__: Any) -> None:
        return None

    user: dict[str, Any] = {"id": "", "email": "", "name": "Evaluation", "role": "user"}
    if hasattr(tools, "UserValves"):
        user["valves"] = tools.UserValves()
    empty = {f"__{name}__": "" for name in ("id", "chat_id", "session_id", "message_id")}
    rest: dict[str, Any] = {
        "__files__": [],
        "__messages__": [],
        "__metadata__": {},
        "__model__": {},
    }
    sinks = {"__event_emitter__": nobody, "__event_call__": nobody, "__request__": None}
    return {"__user__": user, **empty, **rest, **sinks}


def parsed_arguments(arguments: str) -> tuple[Any, bool]:
    """Return the arguments, JSON or written like Python's, and whether they can be read."""
    if not arguments.strip():
        return {}, True
    try:
        return json.loads(arguments), True
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(arguments.strip()), True
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None, False


def coerced(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with "3" as 3 where an int is wanted, and the other way round."""
    try:
        hints = get_type_hints(function)
    except Exception:  # as Open WebUI: without annotations nothing is changed
        hints = {}
    return {name: _fitting(value, hints.get(name)) for name, value in given.items()}


def _fitting(value: Any, hint: Any) -> Any:
    wanted = {hint} if isinstance(hint, type) else set(get_args(hint)) - {type(None)}
    if isinstance(value, str) and wanted == {int}:
        return int(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number and wanted == {str} else value


def _reason(error: BaseException) -> str:
    """Return an error's first line, masked: it may repeat a valve's value."""
    return mask(first_line(error)) if str(error) else type(error).__name__
