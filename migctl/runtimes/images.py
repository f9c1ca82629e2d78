"""Images: there before anything is created, pulled where the plan wants it, fixed to their id, of the engine's architecture."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migctl.core.plan import Job
from migctl.errors import HostError, MigctlError, Notice, PlanError, Where
from migctl.runtimes.abandonment import ask_all
from migctl.runtimes.api import ProgressReport
from migctl.runtimes.docker_errors import engine_errors, translate
from migctl.runtimes.endpoint import find_endpoint
from migctl.runtimes.engine_client import Engine, connect
from migctl.runtimes.socket_client import is_missing


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the engine has."""

    id: str
    """Never moves, whatever becomes of the tag."""
    sets_cuda: bool
    """It sets CUDA_VISIBLE_DEVICES itself."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The image, or why there is none."""

    image: Image | None = None
    problem: MigctlError | None = None


def prepare_images(
    engine: Engine,
    jobs: Sequence[Job],
    on_progress: ProgressReport | None,
    cancel: threading.Event | None = None,
) -> tuple[dict[str, Image], list[MigctlError]]:
    """Job → image, and what is wrong. Equal images are looked at once, several of them side by side.

    Raises:
        Interrupted: `cancel` was set; an engine ends a pull by itself that nobody listens to any more.
    """
    wanted: dict[tuple[str, str], Where | str] = {}
    problems: list[MigctlError] = []
    for job in jobs:
        if job.image is None:
            problems.append(
                PlanError(
                    "no-image",
                    "a container needs an image",
                    where=job.where or f"job {job.name}",
                    hint="add image:, or use runtime: process",
                )
            )
        else:
            wanted.setdefault((job.image, job.pull_policy), job.place("image"))

    def one(key: tuple[str, str]) -> _Answer:
        name, policy = key
        try:
            return _Answer(image=_resolve(engine, name, policy, wanted[key], on_progress))
        except MigctlError as error:
            return _Answer(problem=error)

    answers = ask_all(wanted, one, cancel, "fetching images")
    problems += [problem for key in wanted if (problem := answers[key].problem) is not None]
    images: dict[str, Image] = {}
    for job in jobs:
        answer = answers.get((job.image or "", job.pull_policy))
        if answer is not None and answer.image is not None:
            images[job.name] = answer.image
    return images, problems


def cuda_notices(jobs: Sequence[Job], images: Mapping[str, Image]) -> Iterator[Notice]:
    """Of each image that sets CUDA_VISIBLE_DEVICES, for the jobs that would get it."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        if images[job.name].sets_cuda and "CUDA_VISIBLE_DEVICES" not in dict(job.environment):
            found.setdefault(str(job.image), []).append(job.name)
    for name, own in found.items():
        shown = ", ".join(own[:4]) + (f" and {len(own) - 4} more" if len(own) > 4 else "")
        yield Notice(
            "image-sets-cuda",
            f"the image {name} sets CUDA_VISIBLE_DEVICES itself; it is taken away in the containers of {shown}: each has one "
            "GPU device only",
            hint="take it out of the image: elsewhere it hides devices from programs too",
        )


def look_up(engine: Engine, name: str) -> dict[str, Any] | None:
    """What the engine knows of an image, `None` when it does not have it."""
    with engine_errors(engine.endpoint, name):
        try:
            return dict(engine.client.inspect_image(name))
        except Exception as error:
            if is_missing(error):
                return None
            raise


def image_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of all images that the caller's engine has.

    Raises:
        HostError: no engine answers.
    """
    engine = connect(find_endpoint(environ))
    try:
        with engine_errors(engine.endpoint):
            found = engine.client.images()
    finally:
        engine.client.close()
    return tuple(name for image in found for name in image.get("RepoTags") or () if not name.startswith("<none>"))


def image_of(data: dict[str, Any]) -> Image:
    """The parts that matter here."""
    variables = (data.get("Config") or {}).get("Env") or ()
    return Image(data["Id"], any(v.partition("=")[0] == "CUDA_VISIBLE_DEVICES" for v in variables))


def _resolve(engine: Engine, name: str, policy: str, where: Where | str, on_progress: ProgressReport | None) -> Image:
    data = look_up(engine, name) if policy != "always" else None
    if data is None and policy == "never":
        raise HostError(
            "image-missing",
            f"the engine does not have {name}, and pull_policy is never",
            where=where,
            hint=f"docker pull {name}, or build it",
        )
    if data is None:
        _pull(engine, name, where, on_progress)
        data = look_up(engine, name)
    if data is None:
        raise HostError(
            "image-missing", f"{name} is not there although it was pulled", where=where, hint=f"docker pull {name}"
        )
    theirs, ours = data.get("Architecture"), engine.version.get("Arch")
    if theirs and ours and theirs != ours:
        raise HostError(
            "wrong-architecture",
            f"{name} is built for {theirs}, the engine runs on {ours}",
            where=where,
            hint=f"docker pull --platform linux/{ours} {name}",
        )
    return image_of(data)


def _pull(engine: Engine, name: str, where: Where | str, on_progress: ProgressReport | None) -> None:
    pull = engine.client.pull  # first: it loads the library, or says why that cannot be
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    layers: dict[str, tuple[int, int]] = {}
    failure = ""
    try:
        with engine_errors(engine.endpoint, where):
            # Read to its end also after an error, which is the last thing said: only then the connection is free again.
            for line in pull(repository, tag=tag or "latest", stream=True, decode=True):
                failure = str(line.get("error", failure))
                detail = line.get("progressDetail") or {}
                if line.get("status") == "Downloading" and detail.get("total"):
                    layers[line["id"]] = (detail["current"], detail["total"])
                elif line.get("status") in ("Download complete", "Pull complete") and line.get("id") in layers:
                    layers[line["id"]] = (layers[line["id"]][1],) * 2
                else:
                    continue
                if on_progress is not None:
                    on_progress(name, sum(d for d, _ in layers.values()), sum(t for _, t in layers.values()))
        if failure:
            raise translate(None, failure, where=where)
    except MigctlError as error:
        if error.id in ("no-engine", "engine-not-permitted", "disk-full"):
            raise
        raise _pull_failed(engine, name, where, error) from error


def _pull_failed(engine: Engine, name: str, where: Where | str, error: MigctlError) -> HostError:
    config = engine.endpoint.config
    credentials = f"credentials of {config}" if Path(config).is_file() else f"no credentials: there is no {config}"
    return HostError(
        "image-pull-failed",
        f"{name} could not be pulled ({credentials}): {error.data.get('engine', error.message)}",
        where=where,
        hint=f"check the name and the network; for a private registry docker login, then docker pull {name}",
        data={"image": name, "config": config},
    )
