"""The identity of a result: what was computed, never where or how fast."""

from typing import Any

from linvit.errors import LinvitError
from linvit.files import sha256_json


def science(spec: dict[str, Any]) -> dict[str, Any]:
    """The part of a spec that can change a result: no paths, no choice of what is kept."""
    kept = {key: value for key, value in spec.items() if key != "keep_model"}
    if spec["source"] is not None:
        kept["source"] = {k: v for k, v in spec["source"].items() if k != "weights"}
    return kept


def fingerprint(spec: dict[str, Any], data_digest: str, source_digest: str | None) -> str:
    """SHA-256 in hex: equal exactly when two runs must end with the same numbers.

    source_digest: of the source's weights, None exactly when the spec has no source.
    """
    if (spec["source"] is None) != (source_digest is None) or not data_digest:
        raise LinvitError(
            f"the fingerprint needs the digest of the data ({data_digest!r}) and that of the "
            f"weights of source {spec['source']!r} ({source_digest!r})"
        )
    return sha256_json({"spec": science(spec), "data": data_digest, "source": source_digest})
