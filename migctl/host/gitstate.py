"""The state of a git checkout, read from its files and, for edits that are not committed, asked of git itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from migctl.core.code import Code
from migctl.programs import ask, find_program

TIMEOUT_S = 2.0
"""A checkout whose edits take longer to find is recorded without them."""
_HEX = frozenset("0123456789abcdef")


def code_of(folder: Path, environ: Mapping[str, str]) -> Code | None:
    """The commit that is checked out where this folder lies, and whether files that git knows differ from it.

    Changes nothing, and runs nothing that the checkout names (hooks, monitors, filters of somebody else's checkout). `None`: it is
    no checkout, or it has no commit.
    """
    found = _git_folder(folder)
    if found is None:
        return None
    top, git = found
    commit = _head(git)
    if commit is None:
        return None
    if not _is_own(git) or find_program("git", environ) is None:
        return Code(commit=commit)
    return _with_edits(top, commit, environ)


def _with_edits(top: Path, commit: str, environ: Mapping[str, str]) -> Code:
    words = ["git", "-C", str(top), "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    words += ["diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color"]
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    answer = ask(words, {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}, TIMEOUT_S)
    if not answer.ok:
        return Code(commit=commit)
    if not answer.output:
        return Code(commit=commit, dirty=False)
    digest = hashlib.blake2b(answer.output.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return Code(commit=commit, dirty=True, changes=digest)


def _git_folder(folder: Path) -> tuple[Path, Path] | None:
    """The top of the checkout and its git directory (gitrepository-layout(5): a file names it in worktrees and submodules)."""
    for top in (folder, *folder.parents):
        git = top / ".git"
        try:
            if git.is_dir():
                return top, git
            if git.is_file():
                text = git.read_text("utf-8", "replace")
                named = text.removeprefix("gitdir:").strip()
                return (top, top / named) if text.startswith("gitdir:") and named else None
        except OSError:
            return None
    return None


def _head(git: Path) -> str | None:
    """The commit of HEAD, also of a worktree's, whose branches lie in the common directory."""
    try:
        common = git / _text(git / "commondir") if (git / "commondir").is_file() else git
        head = _text(git / "HEAD")
        for _ in range(5):
            if not head.startswith("ref:"):
                break
            name = head.removeprefix("ref:").strip()
            if name.startswith("/") or ".." in name.split("/"):
                return None
            head = _loose(git, common, name) or _packed(common, name)
    except OSError:
        return None
    return head if len(head) in (40, 64) and _HEX.issuperset(head) else None


def _loose(git: Path, common: Path, name: str) -> str:
    return next((_text(place / name) for place in (git, common) if (place / name).is_file()), "")


def _packed(common: Path, name: str) -> str:
    path = common / "packed-refs"
    if not path.is_file():
        return ""
    lines = (line.split() for line in path.read_text("utf-8", "replace").splitlines())
    return next((words[0] for words in lines if len(words) == 2 and words[1] == name), "")


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace").strip()


def _is_own(git: Path) -> bool:
    """Somebody else's configuration could make git run something as this user (git's safe.directory)."""
    return git.stat().st_uid == os.geteuid()
