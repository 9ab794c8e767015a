"""Pick out of a lesson what can be checked against a transcript: names, numbers, addresses.

Names come in two strengths. *Firm*: only somebody who means one thing writes it so
(`snake_case`, `lowerCamel`, `--flag`, `/path`, `a.b`, `call(`, backticks). *Loose*: it may as
well be a product or a standard (`PostgreSQL`, `UTF-8`, `int64`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAME_CHUNK = re.compile(
    r"(?<![A-Za-z0-9_À-ɏ])(?:--?|[/.@#$]{0,2})[A-Za-z0-9_][A-Za-z0-9_./:*%@$+#-]*"
    r"(?![À-ɏ])(?:\((?!e?s\)|e?n\)))?"
)
_STAND_IN = re.compile(
    r"<[^<>\n]{1,40}>|\{[^{}\n]{1,40}\}|(?<=/)(?::[a-z]\w{0,30}|[A-Z][A-Z_]{1,30})(?=[/\s'\"`)?,.]|$)"
)
"""Placeholders such as `<namespace>`, `/:id`, `/PROJECT_ID`: they name nothing."""
_GENERIC_NAMES = frozenset(
    {"true", "false", "null", "none", "table_name", "column_name", "schema_name", "file_name"}
    | {"database_name", "user_name", "table", "column", "value", "name"}
)
_GENERIC_PARTS = frozenset(
    {"schema", "table", "column", "field", "name", "value", "database", "dataset", "your", "my"}
    | {"some", "the", "foo", "bar", "example", "placeholder", "collection"}
)
"""A name of nothing but these stands for any: `schema.table`, `your_table`."""
_STATEMENT = re.compile(
    r"\b(?:SET|ALTER|CREATE|DROP|GRANT|REVOKE|VACUUM|ANALYZE|TRUNCATE|REINDEX|OPTIMIZE|FLUSH|RESET"
    r"|KILL|PURGE|REPAIR|CLUSTER|REFRESH|ENABLE|DISABLE|LOCK|UNLOCK|SHOW)(?: [A-Z]{2,}){1,3}\b"
)
_CMDLET = re.compile(
    r"(?:Get|Set|New|Remove|Add|Enable|Disable|Start|Stop|Restart|Invoke|Test|Install|Uninstall"
    r"|Import|Export|Clear|Update|Register|Repair|Reset|Move|Copy|Rename)-[A-Z]\w+$"
)
_MEASURE = re.compile(
    r"(?<![A-Za-z0-9_.\-])\d{1,20}(?:[.,'’]\d{1,20}){0,4}(?=(?:[kKMGT]i?[Bb]?|ms|s|sec|min|h|px)\b|%)"
)
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_CODE_SPAN = re.compile(r"`([^`\n]{1,200})`")
_NAME_PIECE = re.compile(r"[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)*")
_LOWER_CAMEL = re.compile(r"^[a-z]{4,}[a-z0-9]*[A-Z]|^[a-z]+[A-Z][a-z]+[A-Za-z0-9]*$")
_UPPER_CAMEL = re.compile(r"^[A-Za-z]*[a-z][A-Z]|^[A-Z]+[a-z]+[A-Z]")
_ABBREVIATION = re.compile(
    r"^(?:e\.g|i\.e|z\.B|d\.h|u\.a|p\.ej|vs|etc|ca|bzw|approx|ASP\.NET)\.?$", re.I
)
_PRODUCT_DOT = re.compile(r"^[A-Z]?\w*\.(?:js|NET|io|ai)$")
_FREE_NUMBER = re.compile(r"(?<![A-Za-z0-9_.\-])\d+(?:[.,'’]\d+)*(?![A-Za-z0-9_])")
_QUANTITY = re.compile(r"(?<![A-Za-z0-9_])\d+(?:[.,'’]\d+)*")
_URL_SCHEME = re.compile(
    r"\b[a-z][a-z0-9+.]{1,12}://(?!(?:localhost|127\.0\.0\.1|0\.0\.0\.0)\b)", re.I
)
_HOST_NAME = re.compile(
    r"(?<![\w@./-])(?:[a-z0-9][a-z0-9-]{0,62}\.)+(?:com|org|net|io|dev|ai|app|cloud|example|invalid"
    r"|local|internal|corp|lan|intranet|test|info|biz|xyz|gov|edu|de|fr|uk|eu|jp|cn|ru|nl|ch|pl|br"
    r"|se|dk|ca|au|kr|site|online|tech|shop|page)(?![\w.-]*[\w(=])"
    r"|(?<![\w@./-])(?:[a-z0-9][a-z0-9-]{0,62}\.){2,}(?:co|me|us|in|it|at|es|tv|to|be|fi|no)(?![\w(=-])",
    re.IGNORECASE,
)
_DAY_STAMP = re.compile(
    r"\b(?:19|20)\d\d-[01]\d-[0-3]\d\b|\b[0-3]?\d\.[01]?\d\.(?:19|20)\d\d\b|\b(?:19|20)\d{2}[01]\d[0-3]\d\b|_(?:19|20)\d{2}[01]\d[0-3]\d\b"
)
EPOCHS = re.compile(r"\b(?:1899-12-30|1900-01-01|1904-01-01|1970-01-01|2000-01-01|9999-12-31)\b")
"""Days that mean a beginning or an end of counting, not a case."""
_EXAMPLE_DAY = re.compile(
    r"(?:such as|like|e\.g\.|for example|z\. ?B\.|wie|zum Beispiel|par exemple|p\. ?ej\.|written as"
    r"|formats?|reads)[ :]{1,3}['\"`]?\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b",
    re.IGNORECASE,
)


def without_plain_days(text: str) -> str:
    """Return a text without days that are an epoch or show a way of writing."""
    return _EXAMPLE_DAY.sub(" ", EPOCHS.sub(" ", text))


_ONE_OFF = re.compile(
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b"
    r"|\b[A-Za-z]{2,8}_(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{8,60}\b"
)
_DATA_FILE = re.compile(
    r"\b[\w-]+\.(?:parquet|csv|tsv|xlsx?|pdf|docx?|pptx?|odt|ods|png|jpe?g|gif|webp|heic|mov|mp[34]|avi|mkv"
    r"|webm|wav|flac|zip|tgz|7z|rar|dump|bak|ipynb|eml)\b",
    re.I,
)
_FULL_NAME = re.compile(r"(?<![\w.])(?=([A-ZÀ-Þ][a-zß-ÿ]+ [A-ZÀ-Þ][a-zß-ÿ]+)(?!\w))")
_SERIAL = re.compile(
    r"\b(?!(?:CVE|RFC|ISO|UTF|SHA|AES|RSA|ANSI|ECMA|PEP|IEEE|DIN|EN|IEC|NIST|FIPS|CP|IBM|GPL|PCI)-?\d)"
    r"(?:[A-Z]{2,8}-\d{3,12}|[A-Z]-\d{4,12}|[A-Z]{2,6}\d{6,12})\b"
)
_API_GROUP = re.compile(
    r"\b(?:[\w-]+\.)*(?:k8s|kubernetes|istio|cert-manager|traefik|argoproj|coreos|helm)\.(?:io|sh|com)/"
)
"""Annotation keys of Kubernetes look like hosts and are none."""
_PUBLIC_NAME = re.compile(
    r"(?<![\w@./-])(?:ghcr\.io|docker\.io|quay\.io|gcr\.io|registry\.k8s\.io|mcr\.microsoft\.com"
    r"|pypi\.org|npmjs\.(?:com|org)|registry\.npmjs\.org|github\.com|gitlab\.com|huggingface\.co"
    r"|crates\.io|rubygems\.org)(?![\w/:@-]|\.\w)",
    re.IGNORECASE,
)
"""Public registries by their bare names: products. The gate's allow-list decides on them."""
_LOCAL_NAME = re.compile(r"(?<![\w.-])host\.docker\.internal(?![\w.-]*\w\.)", re.IGNORECASE)
"""The machine itself, seen from a container."""
SMALL_NUMBERS = frozenset(str(number) for number in range(11))
CONVERSIONS = frozenset(
    {"12", "24", "60", "90", "100", "180", "360", "365", "1000", "1024", "3600", "86400"}
    | {"10000", "1000000", "1000000000", "1048576", "1440", "604800"}
)
"""Numbers that convert units; they are nobody's values."""


class Name(NamedTuple):
    """A name as written, the pieces it is compared by, and how sure it is one."""

    written: str
    pieces: tuple[str, ...]
    firm: bool


def names_in(text: str) -> tuple[Name, ...]:
    """Return the names in a text, each once."""
    found: dict[str, Name] = {}
    text = _STAND_IN.sub(" ", text)
    for match in _NAME_CHUNK.finditer(text):
        name = _name(match.group())
        if name and name.pieces:
            found.setdefault(name.written, name)
    for span in _CODE_SPAN.findall(text):
        for word in _NAME_PIECE.findall(span):
            if not word.isdigit() and len(word) > 1:
                found[word] = Name(word, pieces_of(word), not word.isupper())
    return tuple(name for name in found.values() if not _stands_for_any(name))


def _stands_for_any(name: Name) -> bool:
    parts = {part for piece in name.pieces for part in piece.split("_") if part}
    return name.written.casefold() in _GENERIC_NAMES or parts <= _GENERIC_PARTS


def pieces_of(text: str) -> tuple[str, ...]:
    """Return the plain pieces of a text, case folded, `-` and `_` alike."""
    joined = re.sub(r"(?<=[A-Za-z0-9])-(?=[A-Za-z0-9])", "_", text)
    return tuple(piece.casefold() for piece in _NAME_PIECE.findall(joined))


def piece_index(text: str) -> frozenset[str]:
    """Return every piece of a text, also the parts of compound ones, and whole `--flags`."""
    whole = pieces_of(text)
    parts = (part for piece in whole for part in piece.split("_") if part)
    return frozenset((*whole, *parts, *_flags_in(text)))


def _flags_in(text: str) -> tuple[str, ...]:
    return tuple(flag.casefold().replace("_", "-") for flag in _FLAG.findall(text))


def numbers_in(text: str) -> tuple[str, ...]:
    """Return the free-standing numbers of a text, as digits without separators."""
    return tuple(dict.fromkeys(_digits(found) for found in _FREE_NUMBER.findall(text)))


def measures_in(text: str) -> tuple[str, ...]:
    """Return the numbers of a text that stand before a unit: `30s`, `512M`, `80%`."""
    return tuple(dict.fromkeys(_digits(found) for found in _MEASURE.findall(text)))


def quantities_in(text: str) -> tuple[str, ...]:
    """Return the numbers of a text, also those with a unit behind (`30s`, `4Gi`)."""
    return tuple(dict.fromkeys(_digits(found) for found in _QUANTITY.findall(text)))


def addresses_in(text: str) -> bool:
    """Say whether a text names a URL or a host."""
    bare = _LOCAL_NAME.sub(" ", _PUBLIC_NAME.sub(" ", _API_GROUP.sub(" ", text)))
    return bool(_URL_SCHEME.search(bare) or _HOST_NAME.search(bare))


def versions_in(text: str) -> tuple[str, ...]:
    """Return the versions of three or four parts; longer ones are object identifiers."""
    return tuple(re.findall(r"(?<![\w.])\d+(?:\.\d+){2,3}(?![\w]|\.\d)", text))


def slashed_in(text: str) -> tuple[str, ...]:
    """Return pairs such as `owner/repository`; also `read/write` is written so."""
    return tuple(re.findall(r"(?<![\w/.-])[A-Za-z][\w.-]*/[\w-]+(?![\w/])", text))


def statements_in(text: str) -> tuple[str, ...]:
    """Return what is written like the beginning of a statement: `SET GLOBAL`, `VACUUM FULL`."""
    return tuple(_STATEMENT.findall(text))


def full_names_in(text: str) -> tuple[str, ...]:
    """Return pairs of capitalised words: people, mostly, in languages that write them so."""
    return tuple(_FULL_NAME.findall(text))


def serials_in(text: str) -> tuple[str, ...]:
    """Return what is written like a serial, ticket or vendor's error number."""
    return tuple(_SERIAL.findall(text))


def one_offs_in(text: str) -> bool:
    """Say whether a text holds an id, a hash, a file or a day; an API's version is none."""
    if _ONE_OFF.search(text) or _DATA_FILE.search(text):
        return True
    plain = without_plain_days(text)
    return any(not _names_version(plain, match.start()) for match in _DAY_STAMP.finditer(plain))


def data_files_in(text: str) -> tuple[str, ...]:
    """Return the names, without their endings, of the data files a text names."""
    found = (match.group().rpartition(".")[0] for match in _DATA_FILE.finditer(text))
    return tuple(dict.fromkeys(found))


def _names_version(text: str, place: int) -> bool:
    return re.search(r"version\W{0,6}$", text[max(0, place - 16) : place], re.I) is not None


def _digits(number: str) -> str:
    plain = re.sub(r"\D", "", number)
    if re.match(r"0[.,]", number):  # 0.4 is not 4
        return f"0.{plain[1:]}"
    return plain.lstrip("0") or "0"


def _name(chunk: str) -> Name | None:
    called = chunk.endswith("(")
    bare = chunk.rstrip("(.:,-/*%=+#$@")
    if not bare or _ABBREVIATION.match(bare) or re.fullmatch(r"[\d.,:/%-]+", bare):
        return None
    firmness = _firmness(bare, called)
    if firmness is None:
        return None
    return Name(bare, (*_wanted_pieces(bare), *_flags_in(bare)), firmness)


def _wanted_pieces(bare: str) -> Iterator[str]:
    """Yield what must stand somewhere; in `UNIX_TIMESTAMP-Werte` only the name does."""
    words = _NAME_PIECE.findall(bare)
    names = [word for word in words if "_" in word or _LOWER_CAMEL.match(word)]
    for word in names if names and "-" in bare.lstrip("-") else words:
        if len(word) > 1 and not word.isdigit():
            yield word.casefold()


def _firmness(bare: str, called: bool) -> bool | None:
    """Return True for a firm name, False for a loose one, None for an ordinary word."""
    if _PRODUCT_DOT.match(bare):
        return False
    # `install/upgrade/rollback` is a list of words as often as a path
    firm = (
        called
        or "_" in bare
        or bare[0] in "@#$"
        or bare.startswith(("--", "./"))
        or bool(re.match(r"/[A-Za-z]", bare))
        or (bare.count("/") >= 2 and not re.fullmatch(r"[a-z]+(?:/[a-z]+)+", bare))
        or bool(re.search(r"[A-Za-z_]\.[A-Za-z_]", bare))
        or bool(_LOWER_CAMEL.match(bare))
    )
    if firm:
        return True
    if _CMDLET.match(bare):
        return True
    mixed = any(map(str.isdigit, bare)) and any(map(str.isalpha, bare))
    return False if mixed or bare.count("/") >= 2 or _UPPER_CAMEL.match(bare) else None
