"""An NVML that answers what no driver should: the simulator behind pynvml's names, with now and then a value that cannot be."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from migctl.nvml.models import parse_boards
from migctl.nvml.simstate import SimState
from migctl.nvml.simulator import Simulator
from tests.support.fuzz import Shoot
from tests.support.in_process import say, standing_in
from tests.support.spoil import NUMBERS, text

_CODES = (1, 2, 3, 4, 6, 7, 9, 10, 13, 15, 17, 19, 23, 25, 999, -5, 12345)


class OddNvml:
    """Stands where the module pynvml does. Structs and classes are the simulator's; handles are never touched."""

    def __init__(self, simulator: Simulator) -> None:
        self._real = simulator
        self.random = Random(0)
        self.chance = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if isinstance(found, type) or not callable(found) or not name.startswith("nvml"):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            if self.random.random() < self.chance / 3:
                raise self._real.NVMLError(self.random.choice(_CODES))
            answer = found(*arguments, **named)
            if self.random.random() < self.chance:
                self._spoil_counts(arguments)
                return self._spoilt(answer)
            return answer

        return call

    def _spoil_counts(self, arguments: tuple[Any, ...]) -> None:
        for argument in arguments:
            target = getattr(argument, "_obj", None)
            if isinstance(target, ctypes.c_uint):
                target.value = self.random.choice((0, 1, 50, 10**6, 2**32 - 1))

    def _spoilt(self, answer: Any) -> Any:
        if isinstance(answer, bool | None):
            return answer
        if isinstance(answer, int):
            return self.random.choice([n for n in NUMBERS if 0 <= n < 2**32])
        if isinstance(answer, str):
            return text(self.random)
        if isinstance(answer, list):
            spoilt = [self._spoilt(one) for one in answer]
            return spoilt if self.random.random() < 0.5 or all(isinstance(one, int) for one in spoilt) else spoilt[:-1]
        fields = getattr(answer, "_fields_", None)
        if isinstance(answer, ctypes.Structure) and fields:
            self._spoil_field(answer, self.random.choice(fields))
        return answer

    def _spoil_field(self, answer: ctypes.Structure, field: Any) -> None:
        name, kind = field[0], field[1]
        if isinstance(getattr(answer, name), int):
            bits = 8 * ctypes.sizeof(kind)
            setattr(answer, name, self.random.choice(NUMBERS) % 2**bits)
        elif isinstance(getattr(answer, name), bytes):
            setattr(answer, name, text(self.random).encode("utf-8", "surrogatepass")[: ctypes.sizeof(kind)])
        elif isinstance(getattr(answer, name), str):
            # pynvml's own structs give text and take bytes.
            setattr(answer, name, text(self.random).encode("utf-8", "surrogatepass")[: ctypes.sizeof(kind)])


@contextmanager
def odd_nvml(folder: Path) -> Iterator[Shoot]:
    """Commands that look, on a machine whose driver answers oddly."""
    state = SimState.create(folder / "machine.json", "a100-40gb,h100-sxm5-80gb,t4")
    state.add_foreign_instance(0, "3g.20gb", 4)
    state.add_foreign_instance(0, "1g.5gb", 0, compute=False)
    state.save(folder / "machine.json")
    (folder / "plan.yaml").write_text(
        "runtime: process\ngpu: all\njobs: {a: {profile: 1g.5gb, command: 'true'}, b: {command: 'true'}}\n"
    )
    lines = (("status",), ("status", "--json"), ("profiles",), ("plan",), ("plan", "--json"), ("up", "--dry-run"))
    lines += (("mode", "disable", "--gpu", "0", "--dry-run"), ("check", "--runtime", "process"))
    odd = OddNvml(Simulator(parse_boards("a100-40gb,h100-sxm5-80gb,t4"), folder / "machine.json"))
    missing = object()
    before: Any = sys.modules.get("pynvml", missing)

    def shoot(random: Random) -> None:
        odd.random, odd.chance = random, random.choice((0.002, 0.01, 0.05))
        say(*random.choice(lines))

    try:
        # The seam of the design: the real implementation is the module of this name.
        sys.modules["pynvml"] = odd  # type: ignore[assignment]  # it has the module's names
        with standing_in(folder, MIGCTL_NVML=""):
            yield shoot
    finally:
        if before is missing:
            del sys.modules["pynvml"]
        else:
            sys.modules["pynvml"] = before
