import io
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from linvit.data import fetch
from linvit.data.fetch import NotHere, download, from_debian_package


def serve(monkeypatch, *answers):
    """urlopen gives the answers in turn; an exception is raised."""
    remaining = list(answers)

    def urlopen(url, timeout):
        answer = remaining.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return remaining


def test_download_tries_again(monkeypatch):
    serve(monkeypatch, TimeoutError("timed out"), b"data")
    assert download("http://x.invalid/f", 10) == b"data"


def test_download_does_not_ask_again_for_what_is_not_there(monkeypatch):
    missing = urllib.error.HTTPError("http://x.invalid/f", 404, "Not Found", {}, None)
    remaining = serve(monkeypatch, missing, b"data")
    with pytest.raises(NotHere, match="404"):
        download("http://x.invalid/f", 10)
    assert remaining == [b"data"]


def test_download_is_limited(monkeypatch):
    serve(monkeypatch, b"12345", b"12345")
    with pytest.raises(NotHere, match="more than 4 bytes"):
        download("http://x.invalid/f", 4)


def test_a_slow_download_ends(monkeypatch):
    monkeypatch.setattr(fetch, "DOWNLOAD_TIMEOUT_S", -1)
    serve(monkeypatch, b"12345", b"12345")
    with pytest.raises(NotHere, match="not done after"):
        download("http://x.invalid/f", 10)


@pytest.fixture
def debian(monkeypatch, tmp_path):
    """Stand-ins for apt-get and dpkg-deb; the package is unknown until `apt-get update`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    known = tmp_path / "known"
    scripts = {
        "apt-get": f"""if [ $1 = update ]; then touch {known}; exit; fi
            if [ ! -e {known} ]; then echo "E: Unable to locate package $2" >&2; exit 100; fi
            echo content > $2_1_all.deb""",
        "dpkg-deb": "mkdir -p $3/usr/share && cp $2 $3/usr/share/file",
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda program: f"{programs / program}")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return known


def read_file(folder: Path) -> str:
    return (folder / "file").read_text()


def test_debian_package_is_unpacked(debian):
    debian.touch()
    assert from_debian_package("some-data", "usr/share", read_file) == "content\n"


def test_root_may_update_the_package_list(debian, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert from_debian_package("some-data", "usr/share", read_file) == "content\n"


def test_a_user_is_told_about_the_package_list(debian, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotHere, match=r"Unable to locate package some-data; .*apt-get update"):
        from_debian_package("some-data", "usr/share", read_file)
    assert not debian.exists()


def test_a_full_temporary_folder_is_a_reason(debian, monkeypatch):
    def full(**kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch.tempfile, "TemporaryDirectory", full)
    with pytest.raises(NotHere, match="No space left"):
        from_debian_package("some-data", "usr/share", read_file)
