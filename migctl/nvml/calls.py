"""NVML's functions as the driver calls them: what one of them refuses says which one it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from migctl.nvml.codes import code_of

if TYPE_CHECKING:
    from migctl.nvml.api import Nvml


class Refusal(Exception):  # noqa: N818 -- NVML's word for it is NVMLError, and that it stands for here
    """An NVML function that answered with an error.

    Whether an effect happened hangs on the function: a creation that is refused made nothing, what fails after it may have.
    """

    def __init__(self, value: int, call: str) -> None:
        super().__init__(f"{call}: {value}")
        self.value = value
        self.call = call


class _Calls:
    """The members of an NVML, each function wrapped when it is first used."""

    NVMLError = Refusal

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- any member of pynvml
        member = getattr(self._nvml, name)
        if name.startswith("nvml"):
            member = self._naming(name, member)
        setattr(self, name, member)
        return member

    def _naming(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        error_type = self._nvml.NVMLError

        @wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            try:
                return function(*args, **kwargs)
            except error_type as error:
                raise Refusal(code_of(error), name) from error

        return call


def naming_calls(nvml: Nvml) -> Nvml:
    """The same functions and structs, with `Refusal` as the error that all of them raise."""
    return cast("Nvml", _Calls(nvml))


def call_of(error: BaseException) -> str:
    """The function that a refusal came from."""
    return error.call if isinstance(error, Refusal) else "NVML"
