"""What is said before containers are made: images that choose GPUs themselves, and a Python library that is another one."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from migctl.errors import HostError
from migctl.runtimes.endpoint import Endpoint
from migctl.runtimes.engine_client import connect
from migctl.runtimes.images import Image, cuda_notices
from tests.support.launches import job

PLAIN, CHOOSING = Image("sha256:1", sets_cuda=False), Image("sha256:2", sets_cuda=True)


def test_an_image_that_sets_cuda_visible_devices_is_named_once_with_its_jobs() -> None:
    jobs = [job(name=name, image=image) for name, image in (("a", "base"), ("b", "lab"), ("c", "lab"), ("d", "lab"))]
    jobs[3] = job(name="d", image="lab", environment=(("CUDA_VISIBLE_DEVICES", "0"),))
    images = {"a": PLAIN, "b": CHOOSING, "c": CHOOSING, "d": CHOOSING}

    (notice,) = cuda_notices(jobs, images)

    assert notice.id == "image-sets-cuda"
    assert "the image lab sets CUDA_VISIBLE_DEVICES itself" in notice.message
    assert "in the containers of b, c:" in notice.message


def test_another_module_of_the_librarys_name_is_no_bug_of_migctls(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "docker" or name.startswith("docker.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "docker", ModuleType("docker"))
    endpoint = Endpoint(url="tcp://127.0.0.1:1", source="DOCKER_HOST", config="/none", owner=0, home="/", tls=None)

    with pytest.raises(HostError, match="docker library cannot be used") as caught:
        connect(endpoint)
    assert caught.value.id == "docker-library"
    assert "docker.py" in (caught.value.hint or "")
