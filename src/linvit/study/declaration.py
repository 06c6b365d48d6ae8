"""The declaration of claims, workflow/claims.yaml, read and checked."""

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from linvit.catalog import DISTILLS, INITS
from linvit.errors import LinvitError
from linvit.files import sha256_json


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Arm(_Strict):
    """`linear`: every linear operator that the study plans for the claim, averaged."""

    init: str
    distill: str
    operator: Literal["linear", "softmax"] = "linear"

    @field_validator("init")
    @classmethod
    def _known_init(cls, value: str) -> str:
        return _one_of(value, INITS)

    @field_validator("distill")
    @classmethod
    def _known_distill(cls, value: str) -> str:
        return _one_of(value, DISTILLS)


class Term(_Strict):
    weight: float
    arm: Arm


class Claim(_Strict):
    """Margin in percentage points; see the head of workflow/claims.yaml for `expect`."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    finding: int
    title: str
    lam: Literal["main"] | float = Field(alias="lambda")
    contrast: tuple[Term, ...] = Field(min_length=2)
    expect: Literal["greater", "less", "equivalent", "not_worse"]
    margin: float = Field(ge=0)
    why: str

    @model_validator(mode="after")
    def _is_a_contrast(self) -> "Claim":
        if abs(sum(term.weight for term in self.contrast)) > 1e-9:
            raise ValueError("the weights of a contrast must sum to 0")
        if all(term.arm.operator == "softmax" for term in self.contrast):
            raise ValueError("at least one arm must be a linear one (leave out `operator`)")
        if self.expect in ("equivalent", "not_worse") and self.margin == 0:
            raise ValueError(f"expect: {self.expect} needs a margin above 0")
        return self

    def declaration(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, mode="json")

    @property
    def sha256(self) -> str:
        """Of what is tested; a better wording of title or reason changes nothing."""
        tested = self.declaration()
        return sha256_json({key: tested[key] for key in ("lambda", "contrast", "expect", "margin")})


def _one_of(value: str, known: dict[str, Any]) -> str:
    if value not in known:
        raise ValueError(f"{value!r} is not one of {', '.join(known)}")
    return value


def parse_claims(entries: Any, where: str) -> list[Claim]:
    """Raises LinvitError naming the claim and the key."""
    if not isinstance(entries, list):
        raise LinvitError(f"{where}: `claims` must be a list of claims")
    claims = []
    for index, entry in enumerate(entries):
        name = (isinstance(entry, dict) and entry.get("id")) or f"number {index + 1}"
        try:
            claims.append(Claim.model_validate(entry))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "(all of it)"
            raise LinvitError(f"{where}: claim {name}: {key}: {first['msg']}") from None
    if len({claim.id for claim in claims}) < len(claims):
        raise LinvitError(f"{where}: two claims have one id; rename one")
    return claims


def load_claims(path: Path) -> list[Claim]:
    try:
        content = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError:
        raise LinvitError(f"{path} is missing; it declares the claims of the study") from None
    except yaml.YAMLError as error:
        raise LinvitError(f"{path} is not YAML: {error}") from None
    return parse_claims(content.get("claims") if isinstance(content, dict) else None, str(path))


def in_words(claim: Claim) -> str:
    """`0.5 mlpcopy/output + 0.5 fullcopy/output - Softmax fullcopy/none`."""
    text = ""
    for term in claim.contrast:
        size = abs(term.weight)
        sign = ("- " if term.weight < 0 else "+ ") if text else ("-" if term.weight < 0 else "")
        text += f" {sign}" + ("" if size == 1 else f"{size:g} ") + _arm(term.arm)
    return text.strip()


def _arm(arm: Arm) -> str:
    return f"{'Softmax ' if arm.operator == 'softmax' else ''}{arm.init}/{arm.distill}"


def expectation(claim: Claim) -> str:
    """What the contrast must be, in points: `within ±2`."""
    margin = f"{claim.margin:g}"
    return {
        "greater": f"> {margin}",
        "less": f"< -{margin}",
        "equivalent": f"within ±{margin}",
        "not_worse": f"> -{margin}",
    }[claim.expect]
