"""Pin the losses that tests/train/test_pinned.py compares: python tests/train/pin_numerics.py

Refuses where losses moved and no `numerics` of linvit.catalog was raised.
"""

import contextlib
import json
import sys
import tempfile
from pathlib import Path


def pin() -> int:
    from pinned import FILE, measure, moved, pinned, runs

    from tiny_study import prepare_here

    old = pinned() if FILE.exists() else {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        prepare_here()
        new = {name: measure(*run) for name, run in runs().items()}
    silent = [
        name
        for name in old.keys() & new.keys()
        if moved(old[name], new[name]) and new[name]["numerics"] == old[name]["numerics"]
    ]
    if silent:
        print(f"not pinned: {', '.join(sorted(silent))} moved; raise numerics in catalog.py first")
        return 1
    lines = [f"{json.dumps(name)}: {json.dumps(new[name])}" for name in new]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.path.insert(1, str(Path(__file__).parents[1]))  # tiny_study
    sys.exit(pin())
