"""The identity of a result: what was computed, never where or how fast."""

from linvit.files import sha256_json


def fingerprint(spec: dict, data_digest: str, source_digest: str | None) -> str:
    """Hash of a resolved spec and of the inputs' content; paths do not enter."""
    content = {key: value for key, value in spec.items() if key not in ("source", "keep_model")}
    return sha256_json({"spec": content, "data": data_digest, "source": source_digest})
