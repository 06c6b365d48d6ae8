"""What training and evaluation leave for each cell, read and checked: metrics.json, test.json."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from linvit.errors import LinvitError
from linvit.files import read_json

Percent = Annotated[float, Field(ge=0, le=100)]
Status = Literal["ok", "diverged"]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


R = TypeVar("R", bound=_Record)


class Entry(_Record):
    """One validation point; `distill*` are None without distillation."""

    epoch: float
    step: int
    lr: float
    train_loss: float | None
    train_ce: float | None
    distill: float | None
    distill_relative: float | None
    val_loss: float | None
    val_top1: Percent | None


class Final(_Record):
    train_loss: float | None
    train_top1: Percent | None
    val_loss: float | None
    val_top1: Percent | None


class Digests(_Record):
    data: str
    source: str | None


class Metrics(_Record):
    """metrics.json: a function of the fingerprint and of nothing else."""

    version: Literal[1] = Field(alias="schema")
    cell: dict[str, Any]
    fingerprint: str
    status: Status
    spec: dict[str, Any]
    digests: Digests
    parameters: int
    history: list[Entry]
    final: Final | None

    @model_validator(mode="after")
    def _finished(self) -> "Metrics":
        if self.status == "ok" and (not self.final or None in self.final.model_dump().values()):
            raise ValueError("status is ok but `final` has missing numbers")
        return self


class Evaluation(_Record):
    """test.json: the test split, read once; n images, top1 in percent, loss in nats."""

    version: Literal[1] = Field(alias="schema")
    cell: dict[str, Any]
    fingerprint: str
    status: Status
    n: int
    top1: Percent | None
    loss: float | None

    @model_validator(mode="after")
    def _measured(self) -> "Evaluation":
        if self.status == "ok" and (self.top1 is None or self.loss is None):
            raise ValueError("status is ok but top1 or loss is missing")
        return self


def read_record(path: Path, kind: type[R]) -> R:
    """Raises LinvitError naming the file and the first key that is wrong."""
    try:
        return kind.model_validate_json(json.dumps(read_json(path)))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(whole file)"
        raise LinvitError(
            f"{path}: {key}: {first['msg']}; delete the file and run its rule again"
        ) from None
