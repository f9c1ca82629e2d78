"""The least that a Python program can do for seven containers: import the SDK, create and start them in threads."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import docker


def main(image: str, names: list[str]) -> None:
    api = docker.APIClient(base_url=os.environ.get("DOCKER_HOST"), version="auto")
    host = api.create_host_config(init=True, cpuset_cpus="0")

    def start(name: str) -> None:
        made = api.create_container(
            image, ["sh", "-c", "trap 'exit 0' TERM; sleep 1d & wait"], name=name, host_config=host
        )
        api.start(made["Id"])

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(start, names))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
