"""Study files as data and line numbers, so that every complaint can say where."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from linvit.errors import LinvitError

KeyPath = tuple[str | int, ...]
MAX_NODES = 100_000


class ConfigFile(NamedTuple):
    """A parsed YAML file; lines: path of keys and list positions -> line number from 1."""

    name: str
    data: dict[str, Any]
    lines: dict[KeyPath, int]


def read_config(path: Path) -> ConfigFile:
    """Parse with yaml.safe_load's rules, but refuse a key given twice.

    Raises LinvitError for a missing file, bad YAML, Python tags, endless or exploding aliases.
    """
    name = _short(path)
    try:
        data, lines = _parse(Path(path).read_text(encoding="utf-8"), name)
    except OSError as error:
        raise LinvitError(f"{name}: cannot read the study: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LinvitError(f"{name}: is not UTF-8 text; save it as UTF-8") from None
    if not isinstance(data, dict):
        raise LinvitError(f"{name}:1: a study is a block of keys (study:, seeds:, grids: ...)")
    return ConfigFile(name, data, lines)


def _parse(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        lines = _line_numbers(loader, node, name)
        return loader.construct_document(node) if node else None, lines
    except yaml.YAMLError as error:
        raise LinvitError(_yaml_complaint(name, error)) from None
    except RecursionError:
        raise LinvitError(f"{name}: blocks or aliases are nested without end") from None
    except LinvitError:
        raise
    except ValueError as error:  # such as the date 2024-13-01
        raise LinvitError(f"{name}: a value is impossible: {error}; put it in quotes") from None


def _short(path: Path) -> str:
    path, here = Path(path), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _yaml_complaint(name: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = f"{name}:{mark.line + 1}" if mark else name
    return f"{where}: not valid YAML: {' '.join(str(problem).split())}"


def _line_numbers(loader: yaml.SafeLoader, root: yaml.Node | None, name: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {(): 1}
    pending = [] if root is None else [((), root, frozenset())]
    while pending:
        path, node, above = pending.pop()
        if id(node) in above or len(lines) > MAX_NODES:
            raise LinvitError(f"{name}:{_line(node)}: aliases (*name) repeat without end")
        for key, child, line in _children(loader, node, name):
            lines.setdefault((*path, key), line)
            pending.append(((*path, key), child, above | {id(node)}))
    return lines


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _children(
    loader: yaml.SafeLoader, node: yaml.Node, name: str
) -> list[tuple[str | int, yaml.Node, int]]:
    """(key or position, child, line) of each entry of a mapping or sequence."""
    if isinstance(node, yaml.SequenceNode):
        return [(place, child, _line(child)) for place, child in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return []
    entries, merged, first = [], [], {}
    for key_node, child in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            merged += _merged(loader, child, name)
            continue
        key = _key(loader, key_node, name)
        if key in first:
            raise LinvitError(
                f"{name}:{_line(key_node)}: {key}: this key is given twice, first in line "
                f"{first[key]}; keep one"
            )
        first[key] = _line(key_node)
        entries.append((key, child, first[key]))
    return entries + [entry for entry in merged if entry[0] not in first]


def _merged(loader: yaml.SafeLoader, node: yaml.Node, name: str) -> list:
    """Entries that `<<: *alias` or `<<: [*a, *b]` brings in; earlier ones win."""
    sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return [entry for source in sources for entry in _children(loader, source, name)]


def _key(loader: yaml.SafeLoader, node: yaml.Node, name: str) -> str | int:
    if not isinstance(node, yaml.ScalarNode):
        raise LinvitError(f"{name}:{_line(node)}: a key must be a plain word")
    return loader.construct_object(node)


class Locator:
    """Says where a key of a study comes from, when files and --config were merged into it."""

    def __init__(self, config: dict[str, Any], files: Sequence[ConfigFile]):
        self.config = config
        self.files = tuple(files)

    def where(self, path: KeyPath) -> str:
        """The last file that gives this key, as file:line; or that no file does.

        A key that is missing is reported where its block begins.
        """
        missing = object()
        while path and lookup(self.config, path, missing) is missing:
            path = path[:-1]
        value = lookup(self.config, path, missing)
        for file in reversed(self.files):
            if path in file.lines:
                given = lookup(file.data, path, missing)
                if not isinstance(value, dict) and repr(given) != repr(value):
                    break
                return f"{file.name}:{file.lines[path]}"
        return "--config (on the command line, no line)" if self.files else "study (no file)"

    def order(self, path: KeyPath) -> tuple:
        """Sorts problems as a reader meets them."""
        where = self.where(path)
        name, _, line = where.rpartition(":")
        return (name, int(line)) if line.isdigit() else (where, 0)


def lookup(data: Any, path: Iterable[str | int], default: Any) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return default
    return data
