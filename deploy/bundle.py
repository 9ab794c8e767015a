"""Join the modules of `filter/` into the files an administrator pastes: filter and ratings.

Usage: python deploy/bundle.py [--check]

The text of every module is kept, comments included: only imports move. The
entry module's docstring comes first, because Open WebUI reads its front matter
from line one. Source that cannot be joined safely is refused, never rewritten.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "lessons_loop.filter"
ENTRIES = {"lessons_filter": "Filter", "lessons_rating": "Event"}
"""Entry modules, and the class by which Open WebUI knows what a file is."""
OUTPUT = ROOT / "deploy" / "openwebui"
FRONT_MATTER = {
    "title",
    "author",
    "version",
    "schema",
    "required_open_webui_version",
    "description",
    "license",
    "source_digest",
}
REWRITTEN = re.compile(r"from (utils|apps|main|config)")
"""Open WebUI's loader replaces these anywhere, prompts and comments included."""
RESERVED = {"Pipe", "Filter", "Action", "Event", "Tools"}
"""The loader takes these for entry points: only the file's own may be there."""


class BundleError(Exception):
    """The source breaks a rule that makes joining safe."""


@dataclass
class Module:
    """One source file, cut into what moves and what stays."""

    name: str
    docstring: str = ""
    body: str = ""
    imports: set[str] = field(default_factory=set)
    typing_imports: set[str] = field(default_factory=set)
    needs: set[str] = field(default_factory=set)
    defines: dict[str, str] = field(default_factory=dict)


def split(folder: Path, name: str) -> Module:
    """Read one module and separate its imports from its body."""
    try:
        text = (folder / f"{name}.py").read_text("utf-8")
    except FileNotFoundError:
        raise BundleError(f"{folder.name}/{name}.py is imported, but is not there") from None
    lines = text.splitlines(keepends=True)
    module = Module(name)
    for number, node in enumerate(ast.parse(text).body):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        source = "".join(lines[first - 1 : node.end_lineno])
        if takes_out(node, number, source, module):
            for line in range(first - 1, node.end_lineno or first):
                lines[line] = ""
    module.body = "".join(lines).strip("\n")
    return module


def takes_out(node: ast.stmt, number: int, source: str, module: Module) -> bool:
    """File one top-level statement; return whether it leaves the body."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        if number == 0:
            module.docstring = source
        return number == 0  # a string behind a constant documents it and stays
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for inner in node.body:
            take_import(inner, module, module.typing_imports)
        return True
    if isinstance(node, ast.Import | ast.ImportFrom):
        take_import(node, module, module.imports)
        return True
    if not (defined := names(node)):
        raise BundleError(f"{module.name}: line {node.lineno} runs code on import")
    module.defines |= dict.fromkeys(defined, source)
    return False


def take_import(node: ast.stmt, module: Module, external: set[str]) -> None:
    """File one import under external imports or internal needs."""
    if isinstance(node, ast.Import):
        if any(a.name.split(".")[0] == "lessons_loop" for a in node.names):
            raise BundleError(f"{module.name}: write `from lessons_loop.filter.x import y`")
        external.add(ast.unparse(node))
    elif isinstance(node, ast.ImportFrom):
        take_from(node, module, external)
    else:
        raise BundleError(f"{module.name}: only imports may stand under TYPE_CHECKING")


def take_from(node: ast.ImportFrom, module: Module, external: set[str]) -> None:
    """File a from-import; refuse what joining would break."""
    origin = node.module or ""
    if node.level:
        raise BundleError(f"{module.name}: relative import at line {node.lineno}")
    if origin.split(".")[0] != "lessons_loop":
        external.add(ast.unparse(node))
    elif not origin.startswith(f"{PACKAGE}."):
        raise BundleError(f"{module.name}: the filter must not import {origin}")
    elif any(a.asname or a.name == "*" for a in node.names):
        raise BundleError(f"{module.name}: internal imports may not be renamed or starred")
    else:
        module.needs.add(origin.removeprefix(f"{PACKAGE}."))


def names(node: ast.stmt) -> set[str]:
    """Return the names a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def collect(folder: Path, entry: str) -> list[Module]:
    """Return the entry module and all it needs, dependencies first."""
    modules: dict[str, Module] = {}
    queue = [entry]
    while queue:
        name = queue.pop()
        if name not in modules:
            modules[name] = split(folder, name)
            queue += sorted(modules[name].needs)
    order = TopologicalSorter({m.name: sorted(m.needs) for _, m in sorted(modules.items())})
    return [modules[name] for name in order.static_order()]


def refuse_local_imports(modules: Iterable[Module]) -> None:
    """Refuse imports of our own package inside functions: pasted, nothing is behind them."""
    for module in modules:
        for node in ast.walk(ast.parse(module.body)):
            origin = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and origin.startswith("lessons_loop"):
                raise BundleError(f"{module.name}: imports {origin} inside a function")


def merge_imports(found: set[str]) -> str:
    """Join external imports: future, standard library, third party."""
    plain: set[str] = set()
    froms: dict[str, set[str]] = {}
    for statement in found:
        node = ast.parse(statement).body[0]
        if isinstance(node, ast.ImportFrom):
            froms.setdefault(node.module or "", set()).update(ast.unparse(a) for a in node.names)
        else:
            plain.add(statement)
    future = froms.pop("__future__", set())
    statements = sorted(plain) + [from_line(o, n) for o, n in sorted(froms.items()) if n]
    groups = [
        [f"from __future__ import {', '.join(sorted(future))}"] if future else [],
        [s for s in statements if not third_party(s)],
        [s for s in statements if third_party(s)],
    ]
    return "\n\n".join("\n".join(g) for g in groups if g)


def from_line(origin: str, imported: set[str]) -> str:
    """Return one from-import, wrapped where it is long."""
    line = f"from {origin} import {', '.join(sorted(imported))}"
    if len(line) <= 100:
        return line
    return f"from {origin} import (\n" + "".join(f"    {n},\n" for n in sorted(imported)) + ")"


def third_party(statement: str) -> bool:
    """Say whether an import statement names a third-party module."""
    return statement.split()[1].split(".")[0] not in sys.stdlib_module_names


def banner(module: Module) -> str:
    """Say where a part comes from, with the first line of its docstring."""
    says = "" if module.name in ENTRIES else module.docstring.strip().strip('"').splitlines()[0]
    return f"# {'-' * 78}\n# filter/{module.name}.py" + (f": {says}" if says else "")


def refuse_clashes(modules: list[Module]) -> None:
    """Refuse two meanings of a name; drop repeats of the same definition."""
    seen: dict[str, tuple[str, str]] = {}
    for module in modules:
        for name, source in module.defines.items():
            owner, earlier = seen.setdefault(name, (module.name, source))
            if owner != module.name and earlier != source:
                raise BundleError(f"{name} is defined in both {owner} and {module.name}")
            if owner != module.name:
                module.body = module.body.replace(source, "", 1).strip("\n")
    if clash := (RESERVED - {ENTRIES[modules[-1].name]}) & set(seen):
        raise BundleError(f"Open WebUI reserves {', '.join(sorted(clash))}")
    bound = [name for module in modules for name in imported_names(module)]
    if clash := set(seen) & {name for name, _ in bound}:
        raise BundleError(f"{', '.join(sorted(clash))} is both imported and defined")
    for name in {name for name, _ in bound}:
        if len({statement for n, statement in bound if n == name}) > 1:
            raise BundleError(f"{name} is imported in two ways")


def imported_names(module: Module) -> list[tuple[str, str]]:
    """Return the names a module's external imports bind, each with what it stands for."""
    found = []
    for statement in module.imports | module.typing_imports:
        node = ast.parse(statement).body[0]
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = getattr(node, "module", "") or ""
            found += [(a.asname or a.name.split(".")[0], f"{origin}:{a.name}") for a in node.names]
    return found


def joined_imports(modules: list[Module]) -> str:
    """Return the import block of the bundle."""
    imports = merge_imports(set().union(*(m.imports for m in modules)))
    typing_only = merge_imports(set().union(*(m.typing_imports for m in modules)))
    if typing_only:
        return imports + "\n\nif TYPE_CHECKING:\n" + textwrap.indent(typing_only, "    ")
    return re.sub(r"(, TYPE_CHECKING\b|\bTYPE_CHECKING, )", "", imports)


def front_matter(entry: Module, text: str) -> str:
    """Return the entry's docstring with the digest added, its keys checked."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    head = entry.docstring.rstrip()
    if not head.startswith('"""\n'):
        raise BundleError("front matter must start on the line after the quotes")
    head = head.removesuffix('"""') + f'source_digest: {digest}\n"""'
    keys = set(re.findall(r"^\s*([a-z_]+):", head, re.IGNORECASE | re.MULTILINE))
    if stray := keys - FRONT_MATTER:
        raise BundleError(f"Open WebUI would read {', '.join(sorted(stray))} as front matter")
    return head


def bundle(folder: Path = ROOT / "filter", entry: str = "lessons_filter") -> str:
    """Return the text of a pasted file; raise BundleError."""
    modules = collect(folder, entry)
    refuse_local_imports(modules)
    refuse_clashes(modules)
    body = "\n\n\n".join(f"{banner(m)}\n\n\n{m.body}" for m in modules if m.body)
    text = f"{joined_imports(modules)}\n\n{body}\n"
    text = f"{front_matter(modules[-1], text)}\n\n{text}"
    if found := REWRITTEN.search(text):
        raise BundleError(f"Open WebUI would rewrite {found.group()!r}; reword it")
    compile(text, f"{entry}.py", "exec")
    return text


def main() -> int:
    """Write the pasted files, or with --check say whether the written ones are current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if a pasted file is stale")
    args = parser.parse_args()
    try:
        texts = {OUTPUT / f"{entry}.py": bundle(entry=entry) for entry in ENTRIES}
    except BundleError as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    if not args.check:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            file.write_text(text, "utf-8")
        return 0
    stale = [file for file, text in texts.items() if not is_current(file, text)]
    for file in stale:
        print(f"{file.relative_to(ROOT)} is stale: run python deploy/bundle.py", file=sys.stderr)
    return 1 if stale else 0


def is_current(file: Path, text: str) -> bool:
    """Say whether a written file is what the source gives."""
    return file.exists() and file.read_text("utf-8") == text


if __name__ == "__main__":
    raise SystemExit(main())
