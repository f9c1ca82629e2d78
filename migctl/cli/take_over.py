"""`import`: which files, and where their plan goes."""

from __future__ import annotations

import sys
from pathlib import Path

from migctl.cli.common import Common
from migctl.cli.output import write, write_json
from migctl.engine.importing import check_layout, renamed
from migctl.errors import HostError, Notice, PlanError
from migctl.planfile.importers import Format, Sketch, imported, merged
from migctl.planfile.source import LARGEST_BYTES, Source, decode, read


def import_files(common: Common, words: list[str], output: Path | None, *, config: str | None, gpus: int) -> None:
    """Read the files, and write the plan of them all."""
    known = {member.value for member in Format}
    format_ = Format(words[0]) if words[0] in known and (len(words) > 1 or not Path(words[0]).exists()) else None
    names = words[1:] if format_ is not None else words
    if not names:
        raise PlanError("usage", "import takes a file", hint="migctl import compose.yaml -o plan.yaml")
    session = common.session()
    sketches: list[Sketch] = []
    for name in names:
        source = _source(name)
        text, renamed_ = renamed(source.text, session)
        sketch = imported(Source(text, source.name), format_, config=config, gpus=gpus)
        sketch.left += [f"{old} is {new} today" for old, new in renamed_.items()]
        check_layout(sketch.layout, name)
        sketches.append(sketch)
    sketch = merged(sketches)
    text = sketch.text()
    if common.json:
        write_json({"version": 1, "plan": text, "jobs": list(sketch.jobs), "comments": list(sketch.notices)})
        return
    if not common.quiet:
        _tell(common, sketch)
    if output is None:
        write(text)
        return
    if output.exists():
        raise HostError(
            "exists", f"{output} is there already, and an import overwrites nothing", hint="another name, or remove it"
        )
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise HostError("not-written", f"{output} cannot be written: {error.strerror}") from None


def _source(name: str) -> Source:
    if name == "-":
        return decode(sys.stdin.buffer.read(LARGEST_BYTES + 1), "standard input", kind="file")
    return read(Path(name), name, kind="file")


def _tell(common: Common, sketch: Sketch) -> None:
    from migctl.cli.terminal import style
    from migctl.render.errors_text import notice_lines

    told = style(sys.stderr, no_color=common.no_color)
    notices = [Notice("import", line) for line in sketch.notices]
    sys.stderr.write("".join(f"{line}\n" for line in notice_lines(notices, told, most=len(notices))))
