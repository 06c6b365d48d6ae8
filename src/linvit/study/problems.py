"""What is wrong with a study, in words a user can act on."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from linvit.errors import LinvitError
from linvit.study.lines import KeyPath, Locator

_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list in [brackets]",
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
}
_BOUNDS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
}
MAX_SHOWN = 80


class Problem(NamedTuple):
    path: KeyPath
    text: str


def raise_if_any(problems: Iterable[Problem], locator: Locator) -> None:
    """One LinvitError that lists the first problem of each key as `file:line: key: what`."""
    first: dict[KeyPath, str] = {}
    for problem in problems:
        first.setdefault(problem.path, problem.text)
    lines = [
        f"{locator.where(path)}: {_dotted(path)}: {first[path]}"
        for path in sorted(first, key=locator.order)
    ]
    if len(lines) > 1:
        raise LinvitError("\n  ".join([f"{len(lines)} problems in the study", *lines]))
    if lines:
        raise LinvitError(lines[0])


def _dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path if not isinstance(part, int)) or "study file"


def choose(value: Any, kind: str, allowed: Iterable[str]) -> str | None:
    """What to say when `value` is none of `allowed`, with the nearest name; None if it is one."""
    known = [str(name) for name in allowed]
    if value in known:
        return None
    near = get_close_matches(str(value), known, n=1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return f"{show(value)} is not {kind};{hint} allowed: {', '.join(known) or '(none defined)'}"


def show(value: Any) -> str:
    """The value on one line of bounded length."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def from_pydantic(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        path = tuple(part for part in detail["loc"] if part != "[key]")
        yield Problem(path, _say(detail, path, model))


def empty_values(data: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Keys without a value, which YAML reads as null and a default would hide."""
    if data is None:
        yield Problem(path, "has no value; give one or remove the key")
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from empty_values(value, (*path, key))
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from empty_values(value, (*path, place))


def _say(detail: dict[str, Any], path: KeyPath, model: type[BaseModel]) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return choose(path[-1], "a key here", _keys(_annotation(model, path[:-1])))
    if kind == "missing":
        return "is missing and has no default; add it"
    if kind == "invalid_key":
        return f"the key {show(value)} is no text for YAML; put it in quotes"
    if kind == "too_short":
        return "is empty; give at least one entry or remove the key"
    if kind == "literal_error":
        literal = _annotation(model, path)
        return choose(value, "one of the choices", get_args(literal))
    if kind == "value_error":
        return f"{show(value)} {context['error']}"
    if kind in _BOUNDS:
        name, sign = _BOUNDS[kind]
        return f"{show(value)} is out of range; must be {sign} {context[name]}"
    if kind in _KINDS:
        return f"{show(value)} must be {_KINDS[kind]}{_yaml_hint(kind, value)}"
    return f"{show(value)}: {detail['msg']}"


def _yaml_hint(kind: str, value: Any) -> str:
    """YAML 1.1 surprises: 1e-3 is text, on/no are true/false, 2024 is a number."""
    if kind == "float_type" and isinstance(value, str) and "e" in value.lower():
        return "; YAML reads this as text, write it with a point: 1.0e-3"
    if kind == "string_type" and not isinstance(value, list | dict):
        return "; YAML reads this as a number, a date or a truth value, put it in quotes"
    if kind == "list_type" and not isinstance(value, dict):
        return f": [{value}]"
    return ""


def _keys(model: Any) -> Sequence[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _annotation(annotation: Any, path: KeyPath) -> Any:
    """The type that the schema declares at `path`."""
    for part in path:
        annotation = _bare(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields = annotation.model_fields.items()
            annotation = next(f.annotation for name, f in fields if part in (name, f.alias))
        else:
            annotation = get_args(annotation)[-1]
    return _bare(annotation)


def _bare(annotation: Any) -> Any:
    """Strip Annotated[...] and ... | None."""
    while get_origin(annotation) is Annotated or NoneType in get_args(annotation):
        annotation = next(arg for arg in get_args(annotation) if arg is not NoneType)
    return annotation
