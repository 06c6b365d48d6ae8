"""What the readers of data sets inside Python packages share."""

from pathlib import Path

from linvit.data.specs import DatasetSpec
from linvit.errors import LinvitError


def refuse_folder(spec: DatasetSpec, raw: Path | None) -> None:
    """Raises LinvitError when the user names a folder for a set that comes with a package."""
    if raw is not None:
        raise LinvitError(
            f"data: {spec.name} comes with a Python package ({spec.origin}) and is not read from "
            f"{raw}; remove the key {spec.name} from data:"
        )


def missing_package(spec: DatasetSpec, package: str) -> LinvitError:
    return LinvitError(
        f"{spec.name} needs the package {package}; run `python -m pip install {package}`"
    )
